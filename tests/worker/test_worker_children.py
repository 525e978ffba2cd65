"""A worker starts only the processes that its jobs need."""

import psutil

from support.waiting import WAIT_SECONDS
from support.workers import running_worker


async def test_a_worker_whose_handlers_are_coroutines_and_threads_has_no_child(app):
    @app.job()
    async def here() -> str:
        return "here"

    @app.job()
    def in_a_thread() -> str:
        return "in a thread"

    before = psutil.Process().children()
    async with running_worker(app):
        assert await (await here.enqueue()).wait(WAIT_SECONDS) == "here"
        assert await (await in_a_thread.enqueue()).wait(WAIT_SECONDS) == "in a thread"
        assert psutil.Process().children() == before
