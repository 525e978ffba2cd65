"""Waiting with a timeout and between retries, and slow work in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

END_SECONDS = 0.5


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, at most ``seconds``. Return whether it was set.

    asyncio.wait_for is not used: in Python 3.11 it can lose a cancellation that arrives together with the
    event, and the canceled task continues to run.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def until_readable(seconds: float, *descriptors: int) -> set[int]:
    """Block until one of the descriptors is readable or closed, at most ``seconds``; return which are."""
    poll = select.poll()  # select() refuses descriptors above 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(max(0.0, seconds * 1000))}


async def finish_within(seconds: float, work: Awaitable[Any]) -> bool:
    """Wait for the work, at most ``seconds``, then cancel it. Return whether it finished; raise its error."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait([task], timeout=seconds)
    if done:
        task.result()
    else:
        await end_tasks([task])
    return bool(done)


async def end_tasks(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have ended. Tasks that do not end soon are canceled again.

    psycopg waits up to 10 s for a server that does not confirm the cancellation of a statement, unless it is
    canceled a second time.
    """
    for task in tasks:
        task.cancel()
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=END_SECONDS)
        for task in late:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Backoff:
    """The delays between retries of one operation. They are short: a restarted Postgres is back soon."""

    DELAYS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)

    def __init__(self) -> None:
        self.failures = 0

    @property
    def delay(self) -> float:
        """The seconds to wait before the next try."""
        return self.DELAYS[min(self.failures, len(self.DELAYS) - 1)]

    def next(self) -> float:
        """Count a failure and return the seconds to wait before the next try."""
        delay = self.delay
        self.failures += 1
        return delay

    async def sleep(self) -> None:
        """Count a failure and wait before the next try."""
        await asyncio.sleep(self.next())

    def reset(self) -> None:
        self.failures = 0


T = TypeVar("T")

# Work that would block the event loop for too long runs in a thread, one piece at a time. There is one
# thread, because several would compete with the event loop for the interpreter lock. The thread pauses after
# each piece for as long as the piece took, so that the event loop has the interpreter half of the time even
# if large requests arrive without end.
LARGE = 1_000
"""Number of values from which processing data takes milliseconds."""
LARGE_TEXT = 100_000
MAX_PAUSE = 0.25
_thread = ThreadPoolExecutor(1, "posthouse-slow")


async def off_loop(work: Callable[..., T], *arguments: Any, data: Any) -> T:
    """Do the work and return its result. If ``data`` is large, a thread does it."""
    if not is_large(data):
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
    time.sleep(min(time.perf_counter() - began, MAX_PAUSE))


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
