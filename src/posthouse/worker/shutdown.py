"""The process of a worker: event loop and signals."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

_log = logging.getLogger("posthouse.worker")

STOP_SECONDS = 4.8
"""Maximum time from the end of the drain to the end of the process, which must be below 5 s."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
T = TypeVar("T")


class Stopped(Exception):
    """The process was told to stop while it started."""


class ShutdownSignals:
    """The handler of stop signals. The first signal starts the drain, the second releases the running jobs.

    ``drain`` returns the seconds that running jobs have after the first signal. Then the process ends within
    5 s, even if a handler blocks the loop or the database does not respond.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, drain: Callable[[], float] = lambda: 0.0) -> None:
        self._asked = asyncio.Event()
        self._again = asyncio.Event()
        self._loop = loop
        self._drains: list[Callable[[], float]] = [drain, lambda: 0.0]
        for number in SIGNALS:
            signal.signal(number, self._signaled)

    def _signaled(self, *_: object) -> None:
        """Handle a signal, between two instructions of the main thread: even if a handler blocks the loop."""
        if self._drains:
            timer = threading.Timer(self._drains.pop(0)() + STOP_SECONDS, _end_process)
            timer.daemon = True
            timer.start()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._note)

    def _note(self) -> None:
        (self._again if self._asked.is_set() else self._asked).set()

    async def wait(self, *others: asyncio.Event) -> None:
        """Wait for a stop signal or one of these events."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._asked, *others)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def wait_unless_stopped(self, start: Coroutine[Any, Any, T]) -> T:
        """Wait for a step of the start. On a stop signal, cancel the step and raise Stopped."""
        starting = asyncio.ensure_future(start)
        asked = asyncio.ensure_future(self._asked.wait())
        both: set[asyncio.Future[Any]] = {starting, asked}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for future in both:
            if not future.done():
                future.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        if starting.cancelled():
            raise Stopped
        return starting.result()

    async def wait_for_drain(self, draining: asyncio.Future[None], release_jobs: Callable[[], None]) -> None:
        """Wait for the drain; call ``release_jobs`` on a second signal."""
        again = asyncio.ensure_future(self._again.wait())
        both: set[asyncio.Future[Any]] = {draining, again}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            release_jobs()
        again.cancel()
        await draining


def _end_process() -> None:
    _log.error("shutdown did not finish in time, ending the process")
    os._exit(1)


def run_event_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine like asyncio.run, on uvloop if it is installed."""
    gc.collect()
    gc.freeze()  # modules and definitions are never freed: exclude them from garbage collection
    with suppress(Stopped):
        try:
            import uvloop  # noqa: PLC0415 - not available on every platform
        except ImportError:
            asyncio.run(main)
        else:
            uvloop.run(main)
