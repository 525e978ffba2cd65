"""Waiting with a timeout."""

from __future__ import annotations

import asyncio
import contextlib


async def until_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, at most ``seconds``. Return whether it was set.

    asyncio.wait_for is not used: in Python 3.11 it can lose a cancellation that arrives together with the
    event, and the canceled task continues to run.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
