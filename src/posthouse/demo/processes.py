"""Worker processes of demos, and blocking work that must not be abandoned half-way."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

DRAIN_SECONDS = 2.0
STOP_SECONDS = 20.0


def stop_processes(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Stop workers: drain, then release what still runs, then kill."""
    alive = [process for process in processes if process.poll() is None]
    for seconds in (DRAIN_SECONDS, STOP_SECONDS):
        for process in alive:
            process.terminate()  # the second SIGTERM makes a worker release its jobs
        alive = _still_alive(alive, seconds)
    for process in alive:
        process.kill()
        process.wait()


def _still_alive(processes: list[subprocess.Popen[bytes]], seconds: float) -> list[subprocess.Popen[bytes]]:
    """Wait for all to end, together no longer than this; return those that still run."""
    end = time.monotonic() + seconds
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
    return [process for process in processes if process.poll() is None]


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking work in a thread; a cancellation waits for its end, so that it can be undone."""
    working = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
