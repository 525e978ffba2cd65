"""An application that another process cannot load."""

import os

import posthouse

app = posthouse.App()

if "CROOKED_PARENT" in os.environ and os.environ["CROOKED_PARENT"] != str(os.getpid()):
    raise RuntimeError("only loads once")


@app.job(runner="process")
def never() -> None:
    pass
