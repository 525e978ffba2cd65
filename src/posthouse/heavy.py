"""Run work that would block the event loop for too long in a thread, one piece at a time.

There is one thread, because several would compete with the event loop for the interpreter lock. The thread
pauses after each piece for as long as the piece took, so that the event loop has the interpreter half of the
time even if large requests arrive without end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

LARGE = 1_000
"""Number of values from which processing data takes milliseconds."""
LARGE_TEXT = 100_000
LONGEST_PAUSE = 0.25
_thread = ThreadPoolExecutor(1, "posthouse-heavy")


async def off_loop(work: Callable[..., T], *arguments: Any, about: Any) -> T:
    """Do the work and return its result. If ``about``, the data of the work, is large, a thread does it."""
    if not is_large(about):
        return work(*arguments)
    return await in_thread(work, *arguments)


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    _thread.submit(_do, work, arguments, loop, done)
    return await done


def _do(
    work: Callable[..., T], arguments: Any, loop: asyncio.AbstractEventLoop, done: asyncio.Future[T]
) -> None:
    """Do a piece of work, hand over the result, then pause."""
    if done.cancelled():
        return
    began = time.perf_counter()
    try:
        hand_over, value = done.set_result, work(*arguments)
    except BaseException as error:  # noqa: BLE001 - raised where the work is awaited
        hand_over, value = done.set_exception, error  # type: ignore[assignment]
    with suppress(RuntimeError):  # the event loop was closed
        loop.call_soon_threadsafe(lambda: None if done.done() else hand_over(value))
    time.sleep(min(time.perf_counter() - began, LONGEST_PAUSE))


def is_large(value: Any) -> bool:
    """Return whether data has many values or long texts. The check stops at the limit."""
    left, seen, size = [value], 0, 0
    while left:
        item = left.pop()
        seen += 1
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, dict | list | tuple):
            if len(item) > LARGE:
                return True
            left.extend(item.values() if isinstance(item, dict) else item)
        if seen > LARGE or size > LARGE_TEXT:
            return True
    return False
