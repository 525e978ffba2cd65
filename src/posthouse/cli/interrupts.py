"""Commands that clean up when they are interrupted, and exit with the code that shells expect."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

from posthouse.worker.shutdown import SIGNALS, run_loop


def exit_on_interrupt() -> None:
    """Make Ctrl-C exit with code 130 and no traceback until an event loop handles signals."""
    signal.signal(signal.SIGINT, _exit)


def run_interruptible(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end. SIGTERM or Ctrl-C cancels it; after its clean-up the process exits with 143 or 130,
    unless ``main`` handles the cancellation and returns.
    """
    interrupted_by: list[int] = []
    run_loop(_run(main, interrupted_by))
    if interrupted_by:
        sys.exit(128 + interrupted_by[0])


async def _run(main: Coroutine[Any, Any, None], interrupted_by: list[int]) -> None:
    received: list[int] = []
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)

    def stop(number: int) -> None:
        if not received:  # the clean-up is bounded; a second signal must not leave processes behind
            received.append(number)
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    await asyncio.wait([task])
    if not received:
        task.result()
    elif task.cancelled() or task.exception() is not None:  # retrieved, so that asyncio does not report it
        interrupted_by.extend(received)


def _exit(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
