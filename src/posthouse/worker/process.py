"""A process of its own: the event loop, and what signals mean."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Asked once: finish what runs. Asked again: let go of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asked = asyncio.Event()
        self._again = asyncio.Event()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._note)

    def _note(self) -> None:
        (self._again if self._asked.is_set() else self._asked).set()

    async def asked_or(self, *others: asyncio.Event) -> None:
        """Waits until asked to stop, or until one of these happened."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._asked, *others)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def again(self, draining: asyncio.Future[None], hurry: Callable[[], None]) -> None:
        """Waits for the drain, and hurries it when asked again."""
        again = asyncio.ensure_future(self._again.wait())
        both: set[asyncio.Future[Any]] = {draining, again}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            hurry()
        again.cancel()
        await draining


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """asyncio.run, on uvloop where it is installed."""
    gc.collect()
    gc.freeze()  # modules and definitions stay for good: no collection need look at them again
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
