"""What every mode of dispatch must do. Each check takes an application on an empty database and the settings
of the mode; its worker polls so rarely that only dispatch can make a test pass.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import posthouse
from support.waiting import eventually
from support.workers import job_row, running_worker, status_counts

RARELY = {"poll_seconds": 3600, "heartbeat_seconds": 1, "lease_seconds": 10}


class Runs:
    """An application that records what it runs."""

    def __init__(self, settings):
        self.app = posthouse.App(settings=settings)
        self.ran = []
        self.gate = asyncio.Event()

        @self.app.job()
        async def note(number: int) -> None:
            self.ran.append(number)

        @self.app.job()
        async def hold() -> None:
            await self.gate.wait()

        @self.app.job(retry=posthouse.Retry(0))
        async def second_time(job: posthouse.Job) -> None:
            if job.attempt == 1:
                raise ValueError("the first attempt fails")

        self.note, self.hold, self.second_time = note, hold, second_time

    async def ended(self, db, count):
        await eventually(lambda: status_counts(db) == {"succeeded": count}, what=f"{count} succeeded jobs")


async def an_idle_worker_starts_a_new_job(runs, db, mode):
    async with running_worker(runs.app, **RARELY, **mode):
        for number in range(3):
            await runs.note.enqueue(number=number)
            await runs.ended(db, number + 1)


async def a_job_enqueued_before_the_worker_starts_is_run(runs, db, mode):
    await runs.note.enqueue(number=1)
    async with running_worker(runs.app, **RARELY, **mode):
        await runs.ended(db, 1)


async def every_job_runs_once_on_several_workers(runs, db, mode):
    async with AsyncExitStack() as stack:
        for number in range(3):
            options = {**RARELY, **mode, "concurrency": 2}
            await stack.enter_async_context(running_worker(runs.app, keeper=number == 0, **options))
        for number in range(100):
            await runs.note.enqueue(number=number)
        async with posthouse.Client(settings=runs.app.settings) as client:
            await client.enqueue_many([runs.note.request({"number": number}) for number in range(100, 200)])
        await runs.ended(db, 200)
    assert Counter(runs.ran) == Counter(range(200))


async def a_job_starts_when_its_transaction_commits(runs, db, mode):
    async with running_worker(runs.app, **RARELY, **mode):
        db.execute("begin")
        db.execute("select posthouse.enqueue('note', '{\"number\": 1}')")
        db.execute("rollback")
        db.execute("begin")
        db.execute("select posthouse.enqueue('note', '{\"number\": 2}')")
        assert runs.ran == []
        db.execute("commit")
        await runs.ended(db, 1)
    assert runs.ran == [2]


async def a_scheduled_job_starts_when_it_is_due(runs, db, mode):
    async with running_worker(runs.app, **RARELY, **mode):
        job = await runs.note.using(delay=0.3).enqueue(number=1)
        await runs.ended(db, 1)
    found = job_row(db, job.id)
    assert found["started_at"] >= found["scheduled_for"]


async def a_failed_job_is_retried(runs, db, mode):
    async with running_worker(runs.app, **RARELY, **mode):
        await runs.second_time.enqueue()
        await runs.ended(db, 1)


async def a_free_worker_takes_the_jobs_of_a_busy_one(runs, db, mode):
    options = {**RARELY, **mode, "concurrency": 1}
    async with running_worker(runs.app, **options), running_worker(runs.app, keeper=False, **options):
        await runs.hold.enqueue()
        await eventually(lambda: status_counts(db) == {"running": 1}, what="a busy worker")
        for number in range(5):
            await runs.note.enqueue(number=number)
            await eventually(lambda: len(runs.ran) == number + 1, what="a job on the free worker")  # noqa: B023
        runs.gate.set()
        await runs.ended(db, 6)


async def workers_of_one_queue_with_different_kinds_are_all_woken(runs, db, mode):
    other = posthouse.App(settings=runs.app.settings)
    ran = []

    @other.job()
    async def different(number: int) -> None:
        ran.append(number)

    async with (
        other,
        running_worker(runs.app, **RARELY, **mode),
        running_worker(other, keeper=False, **RARELY, **mode),
    ):
        for number in range(3):
            await different.enqueue(number=number)
            await runs.note.enqueue(number=number)
            await runs.ended(db, 2 * number + 2)


async def jobs_start_by_priority(runs, db, mode):
    async with running_worker(runs.app, **{**RARELY, **mode, "concurrency": 1}):
        await runs.hold.enqueue()
        await eventually(lambda: status_counts(db) == {"running": 1}, what="a busy worker")
        for number, priority in enumerate(("low", "normal", "high")):
            for _ in range(3):
                await runs.note.using(priority=priority).enqueue(number=number)
        runs.gate.set()
        await runs.ended(db, 10)
    assert runs.ran == [2, 2, 2, 1, 1, 1, 0, 0, 0]


async def jobs_of_a_resumed_queue_start(runs, db, mode):
    async with running_worker(runs.app, **RARELY, **mode):
        db.execute("select posthouse.pause_queue('default')")
        await runs.note.enqueue(number=1)
        db.execute("select posthouse.resume_queue('default')")
        await runs.ended(db, 1)


async def a_running_job_is_canceled_at_once(runs, db, mode):
    """Before the next heartbeat: the worker is notified."""
    async with running_worker(
        runs.app, **{**RARELY, **mode, "heartbeat_seconds": 600, "lease_seconds": 1200}
    ):
        job = await runs.hold.enqueue()
        await eventually(lambda: job_row(db, job.id)["status"] == "running", what="a running job")
        assert db.execute("select posthouse.cancel(%s)", (job.id,)).fetchone() == ("canceling",)
        await eventually(lambda: job_row(db, job.id)["status"] == "canceled", what="a canceled job")


CHECKS = (
    an_idle_worker_starts_a_new_job,
    a_job_enqueued_before_the_worker_starts_is_run,
    every_job_runs_once_on_several_workers,
    a_job_starts_when_its_transaction_commits,
    a_scheduled_job_starts_when_it_is_due,
    a_failed_job_is_retried,
    a_free_worker_takes_the_jobs_of_a_busy_one,
    workers_of_one_queue_with_different_kinds_are_all_woken,
    jobs_start_by_priority,
    jobs_of_a_resumed_queue_start,
    a_running_job_is_canceled_at_once,
)
