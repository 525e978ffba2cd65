"""Waiting with a timeout, and between retries."""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Awaitable, Collection
from typing import Any

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
