"""The stage of a demo: what it runs and cleans up."""

import asyncio

import pytest

from posthouse.demo.stage import finish


async def test_a_cancellation_waits_for_the_end_of_a_clean_up():
    started, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def clean_up():
        started.set()
        await may_end.wait()
        ended.set()

    task = asyncio.ensure_future(finish(clean_up()))
    await started.wait()
    task.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
