"""A worker of ``bench.redis``: a process of its own, with a keeper if it is told so."""

from __future__ import annotations

import sys

import posthouse

app = posthouse.App()


@app.job()
async def noop() -> None:
    """Do nothing."""


if __name__ == "__main__":
    app.run_worker(keeper="--keeper" in sys.argv)
