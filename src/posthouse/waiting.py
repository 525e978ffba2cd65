"""Waiting for something, but not for ever."""

from __future__ import annotations

import asyncio
import contextlib


async def until_set(event: asyncio.Event, seconds: float) -> bool:
    """Waits until the event is set, at most so long; whether it was.

    Not asyncio.wait_for: in Python 3.11 a cancellation that comes together with the event is lost there, and
    the task that was to end lives on.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
