"""A slot runs one handler call after the other in the same task, and no call affects the next."""

import asyncio
from contextvars import ContextVar
from itertools import groupby

import pytest

import posthouse
from posthouse.core.outcome import TimedOut
from posthouse.worker.executor import CALLS_PER_TURN
from posthouse.worker.fetcher import Fetcher
from posthouse.worker.outcomes import Released
from support.waiting import eventually
from support.workers import attempt_outcomes, job_status, running_worker, status_counts

customer = ContextVar("customer", default=None)


@pytest.fixture(autouse=True)
def _claim_all_jobs_at_once(monkeypatch):
    """One slot gets them all."""
    monkeypatch.setattr(Fetcher, "_claim_size", lambda _: 1000)


async def test_a_context_variable_of_one_job_is_not_seen_by_the_next(app, db):
    seen, tasks = [], set()

    @app.job()
    async def bind(name: str):
        tasks.add(asyncio.current_task())
        before = customer.get()
        customer.set(name)
        await asyncio.sleep(0)
        seen.append((before, customer.get()))

    names = [f"customer {number}" for number in range(5)]
    for name in names:
        await bind.enqueue(name=name)
    async with running_worker(app, concurrency=1):
        await eventually(lambda: status_counts(db) == {"succeeded": 5})
    assert seen == [(None, name) for name in names]
    assert len(tasks) == 1


async def test_a_cancellation_that_a_handler_did_not_notice_does_not_reach_the_next_job(app, db):
    """The handler is canceled at its timeout, but returns without waiting for anything again."""

    @app.job(max_attempts=1)
    async def late(job: posthouse.Job):
        workers[0].executor.interrupt(job._attempt, TimedOut("the handler exceeded its timeout"))

    @app.job(max_attempts=1)
    async def next_one():
        await asyncio.sleep(0)

    workers = []
    handles = [await late.enqueue(), await next_one.enqueue()]
    async with running_worker(app, concurrency=1) as worker:
        workers.append(worker)
        await eventually(lambda: job_status(db, handles[1].id) == "succeeded")
    assert attempt_outcomes(db, handles[0].id) == [(1, "timeout")]


async def test_handlers_that_never_wait_leave_turns_to_other_tasks(app, db):
    calls = []

    @app.job()
    async def short():
        calls.append("call")

    async def tick():
        while True:
            calls.append("tick")
            await asyncio.sleep(0)

    for _ in range(4 * CALLS_PER_TURN):
        await short.enqueue()
    async with running_worker(app, concurrency=1):
        ticking = asyncio.create_task(tick())
        await eventually(lambda: status_counts(db) == {"succeeded": 4 * CALLS_PER_TURN})
        ticking.cancel()
    runs = [len(list(run)) for name, run in groupby(calls) if name == "call"]
    assert max(runs) == CALLS_PER_TURN


async def test_a_job_that_is_released_before_its_slot_starts_does_not_run(app, db, monkeypatch):
    ran = []

    @app.job(max_attempts=1)
    async def note(job: posthouse.Job):
        ran.append(job.attempt)

    async with running_worker(app, concurrency=1) as worker:
        accept = worker.executor.accept

        def accept_and_release(jobs):
            worker.executor.accept = accept
            accept(jobs)
            worker.executor.interrupt_all(Released())

        monkeypatch.setattr(worker.executor, "accept", accept_and_release)
        handle = await note.enqueue()
        await eventually(lambda: job_status(db, handle.id) == "succeeded")
        assert worker.executor.idle_slots == 1
    assert ran == [1]
    assert [outcome for _, outcome in attempt_outcomes(db, handle.id)] == ["released", "succeeded"]
    assert status_counts(db) == {"succeeded": 1}
