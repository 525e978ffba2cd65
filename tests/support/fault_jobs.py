"""The worker of the fault tests: run as a script it works until it is told to stop, or killed.

Its settings come from the environment, as those of any worker.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import posthouse

app = posthouse.App()
AT_ONCE = posthouse.Retry(0, 0, 0, 0)
EFFECT = "insert into effects (job_id, attempt) values (%s, %s)"


def _touch(path: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")


def _exists(path: str) -> bool:
    return Path(path).exists()


@app.job()
async def quick(number: int) -> int:
    return number


@app.job(retry=AT_ONCE)
async def pay(job: posthouse.Job, seconds: float = 0) -> None:
    """Has an effect of its own, once and only with its completion."""
    await asyncio.sleep(seconds)
    async with job.commit() as connection:
        await connection.execute(
            "insert into effects (job_id, attempt) values (%s, %s)", (job.id, job.attempt)
        )


@app.job(max_attempts=5)
async def pay_when_told(job: posthouse.Job, started: str, until: str) -> None:
    """The same, once a file is there."""
    _touch(started)
    while not _exists(until):
        await asyncio.sleep(0.01)
    async with job.commit() as connection:
        await connection.execute(EFFECT, (job.id, job.attempt))


@app.job(max_attempts=5)
async def hold(started: str, until: str) -> str:
    """Says that it started, and goes on until a file is there."""
    _touch(started)
    while not _exists(until):
        await asyncio.sleep(0.01)
    return "released"


@app.job()
async def block_for_ever(started: str) -> None:
    """Blocks the event loop, as code that should not be in an async handler does."""
    _touch(started)
    while True:
        time.sleep(0.1)  # noqa: ASYNC251


@app.job(max_attempts=5)
def hold_thread(started: str, until: str) -> str:
    _touch(started)
    while not Path(until).exists():
        time.sleep(0.01)
    return "released"


@app.job(max_attempts=5)
async def watched_hold(started: str, until: str, ended: str) -> str:
    """The same, and says when it was ended by its worker."""
    _touch(started)
    try:
        while not _exists(until):
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        _touch(ended)
        raise
    return "released"


@app.job(max_attempts=5)
async def block(started: str, seconds: float) -> str:
    """Does not let the loop go."""
    _touch(started)
    time.sleep(seconds)  # noqa: ASYNC251 - the very thing
    return "done"


@app.job(max_attempts=5)
async def block_until(started: str, until: str) -> str:
    """Does not let the loop go before a file is there."""
    _touch(started)
    while not _exists(until):
        time.sleep(0.01)  # noqa: ASYNC251 - the very thing
    return "done"


@app.job(max_attempts=5)
async def spin(started: str, seconds: float) -> str:
    """The same, in Python code."""
    _touch(started)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass
    return "done"


@app.job(max_attempts=5)
def block_thread(started: str) -> None:
    """Cannot be told anything: it waits in C."""
    _touch(started)
    threading.Event().wait()


@app.job(max_attempts=10)
async def poison(how: str) -> None:
    """Takes its worker with it."""
    await asyncio.sleep(0.1)
    if how == "exit":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGSEGV)


@app.job(max_attempts=10)
async def neighbour(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "fine"


@app.job(max_attempts=8, retry=posthouse.Retry.exponential("20ms", cap="200ms"), timeout="2s")
async def errand(job: posthouse.Job, fate: str, seconds: float) -> str | posthouse.Snooze:
    """Ends in any of the ways that there are."""
    await asyncio.sleep(seconds)
    match fate:
        case "pay":
            async with job.commit() as connection:
                await connection.execute(EFFECT, (job.id, job.attempt))
        case "retry" if job.attempt == 1:
            raise ValueError("at first it does not work")
        case "fail":
            raise posthouse.Fail("it never works")
        case "exhaust":
            raise ValueError("it never works, and is tried again")
        case "snooze" if job.snoozes < 2:
            return posthouse.Snooze(0.02)
        case "cancel":
            raise posthouse.Cancel
        case "follow":
            job.enqueue(errand, fate="plain", seconds=random.random() / 50)
        case "timeout" if job.attempt == 1:
            await asyncio.sleep(60)
    return fate


@app.job(max_attempts=8, retry=AT_ONCE, timeout="2s")
def thread_errand(job: posthouse.Job, fate: str, seconds: float) -> str:
    time.sleep(seconds)
    if fate == "pay":
        with job.commit() as connection:
            connection.execute(EFFECT, (job.id, job.attempt))
    if fate == "retry" and job.attempt == 1:
        raise ValueError("at first it does not work")
    return fate


if __name__ == "__main__":
    app.run_worker(keeper="--no-keeper" not in sys.argv)
