"""Waiting for a condition. The default here is the time-out of all tests that wait for one."""

from __future__ import annotations

import asyncio
import time

WAIT_SECONDS = 90
"""Long enough for a busy machine: only a test that fails waits this long. Less than pytest's own time-out."""


async def eventually(condition, seconds=WAIT_SECONDS, what="the condition"):
    """Return the first true value of the condition; fail if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s: {value!r}"
        await asyncio.sleep(0.01)
    return value


def eventually_sync(condition, seconds=WAIT_SECONDS, what="the condition"):
    """Return the first true value of the condition; fail if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s: {value!r}"
        time.sleep(0.02)
    return value
