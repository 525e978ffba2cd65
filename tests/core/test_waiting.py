"""Waiting with a limit."""

import asyncio

import pytest

from posthouse.waiting import wait_for_event


async def test_it_says_whether_the_event_was_set_in_time():
    event = asyncio.Event()
    assert not await wait_for_event(event, 0.001)
    asyncio.get_running_loop().call_soon(event.set)
    assert await wait_for_event(event, 20)


async def test_a_cancellation_that_comes_together_with_the_event_is_not_lost():
    event = asyncio.Event()
    waiting = asyncio.ensure_future(wait_for_event(event, 20))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
