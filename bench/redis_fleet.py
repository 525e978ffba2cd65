"""A fleet of workers for ``bench.redis``: ``python -m bench.redis_fleet 50``.

Each worker is a process of its own; the first one has the keeper. They are forked, because fifty interpreters
that import Posthouse at the same time keep two cores busy for a minute.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import uvloop  # noqa: F401 - imported before the fork

import posthouse
from posthouse import maintenance  # noqa: F401
from posthouse.worker import worker  # noqa: F401
from redis import asyncio as _redis  # noqa: F401

app = posthouse.App()


@app.job()
async def noop() -> None:
    """Do nothing."""


@app.job()
async def clock() -> float:
    """Return when the handler started."""
    return time.time()


@app.job()
async def hold() -> None:
    """Keep a slot."""
    await asyncio.sleep(3600)


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        if os.fork() == 0:
            app.run_worker(keeper=number == 0)
            os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
