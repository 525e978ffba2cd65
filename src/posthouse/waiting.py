"""Waiting with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import select


async def until_set(event: asyncio.Event, seconds: float) -> bool:
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
