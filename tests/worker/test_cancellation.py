"""Timeouts, cancellation, progress and lost leases: a handler that is ended from outside."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest

import posthouse
from posthouse import testing
from posthouse.errors import JobFailed
from posthouse.storage.leases import Leases
from posthouse.worker.runners.threads import ThreadCall
from support.waiting import WAIT_SECONDS, eventually
from support.workers import (
    attempt_outcomes,
    cancel,
    claim_as_other_worker,
    expire_lease_and_rescue,
    job_row,
    job_status,
    running_worker,
    status_counts,
    wait_for_startup_heartbeats,
)


async def test_an_async_handler_is_canceled_at_its_timeout(app, db):
    notified = []

    @app.job(timeout="100ms", max_attempts=1)
    async def slow():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            notified.append(True)
            raise

    handle = await slow.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert notified == [True]
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]
    assert "exceeded its timeout" in job_row(db, handle.id)["last_error"]


async def test_a_timeout_is_retried_like_an_error(app, db):
    @app.job(timeout="100ms", retry=posthouse.Retry(0))
    async def slow(job: posthouse.Job):
        if job.attempt == 1:
            await asyncio.sleep(3600)
        return job.attempt

    handle = await slow.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert attempt_outcomes(db, handle.id) == [(1, "timeout"), (2, "succeeded")]


async def test_a_job_may_have_a_timeout_of_its_own(app, db):
    @app.job(timeout="1h", max_attempts=1)
    async def slow():
        await asyncio.sleep(3600)

    await slow.using(timeout="100ms").enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}


async def test_a_thread_handler_is_interrupted_at_its_timeout(app, db):
    seen = []

    @app.job(timeout="2s", max_attempts=1)  # within which its thread starts, on a busy machine too
    def slow():
        try:
            while True:
                time.sleep(0.01)
        except posthouse.Cancel:
            seen.append("told")
            raise

    handle = await slow.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    await eventually(lambda: seen == ["told"])
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]


async def test_a_handler_that_is_stopped_before_its_thread_starts_does_not_run():
    ran = []
    call = ThreadCall(lambda: ran.append("ran"), asyncio.get_running_loop())
    call.interrupt()
    await asyncio.to_thread(call.run)
    with pytest.raises(posthouse.Cancel):
        await call.future
    assert ran == []


async def test_a_thread_that_cannot_be_interrupted_is_reported_after_the_grace_and_keeps_its_slot(app, db):
    stuck, ended = threading.Event(), []

    @app.job(timeout="2s", retry=posthouse.Retry(0))  # which the second attempt does not reach
    def slow(job: posthouse.Job):
        if job.attempt == 1:
            stuck.wait(WAIT_SECONDS)  # in C: no exception reaches it
            ended.append("first")
        else:
            ended.append("second")

    handle = await slow.enqueue()
    async with running_worker(app, concurrency=1, cancel_grace_seconds=0.1):
        await eventually(lambda: (1, "timeout") in attempt_outcomes(db, handle.id))
        stuck.set()
        await eventually(lambda: job_status(db, handle.id) == "succeeded")
    assert ended[-1] == "second", "the second attempt had to wait for the slot of the first"
    assert attempt_outcomes(db, handle.id) == [(1, "timeout"), (2, "succeeded")]


async def test_the_attempt_after_a_timeout_is_not_harmed_by_the_end_of_the_grace(app, db):
    """The grace of the first attempt ends while the second one runs in the same worker."""
    go_on = asyncio.Event()

    @app.job(retry=posthouse.Retry(0))
    async def slow(job: posthouse.Job):
        if job.attempt == 1:
            await asyncio.sleep(3600)
        await go_on.wait()

    handle = await slow.using(timeout="3s", max_attempts=2).enqueue()
    async with running_worker(app, cancel_grace_seconds=0.1, keeper=False) as worker:
        await eventually(lambda: (1, "timeout") in attempt_outcomes(db, handle.id))
        # Both timeouts are the job's own, so the second one is lifted once it runs.
        held = worker.executor.leased
        job = await eventually(lambda: next((j for j in held.values() if j.attempt == 2 and j.task), None))
        job.deadline = None
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats >= beats + 3)  # longer than the grace
        assert held == {job.hex_id: job}
        go_on.set()
        await eventually(lambda: job_status(db, handle.id) == "succeeded")
    assert attempt_outcomes(db, handle.id) == [(1, "timeout"), (2, "succeeded")]


async def test_a_handler_that_swallows_its_timeout_has_timed_out_nevertheless(app, db):
    @app.job(timeout="100ms", max_attempts=1)
    async def stubborn():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "as if nothing had happened"

    handle = await stubborn.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]


async def test_a_running_async_handler_is_canceled(app, db):
    started, notified = asyncio.Event(), []

    @app.job()
    async def work(job: posthouse.Job):
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            notified.append(job.canceled)
            raise

    handle = await work.enqueue()
    async with running_worker(app, heartbeat_seconds=30, lease_seconds=60):  # told by NOTIFY, not by a beat
        await asyncio.wait_for(started.wait(), 20)
        assert cancel(db, handle.id) == "canceling"
        await eventually(lambda: job_status(db, handle.id) == "canceled")
    assert notified == [True]
    assert attempt_outcomes(db, handle.id) == [(1, "canceled")]
    with pytest.raises(JobFailed, match="canceled"):
        await handle.wait("60s")


async def test_a_cancellation_between_claim_and_start_is_not_missed(app, db, monkeypatch):
    """The notification arrives before the answer to the claim: the worker does not know the job yet."""

    @app.job()
    async def endless():
        await asyncio.Event().wait()

    claim = Leases.claim

    async def claim_slowly(*arguments, **options):
        claimed = await claim(*arguments, **options)
        if claimed.rows:
            beats = worker.heartbeat.beats
            (job_id,) = db.execute("select id from posthouse.running").fetchone()
            assert cancel(db, job_id) == "canceling"
            await eventually(lambda: worker.heartbeat.beats > beats, what="a beat without the job")
        return claimed

    # Before the start: a claim that is under way would take the job without the delay.
    monkeypatch.setattr(Leases, "claim", claim_slowly)
    async with running_worker(app, heartbeat_seconds=600, lease_seconds=1200) as worker:
        await wait_for_startup_heartbeats(worker)
        handle = await endless.enqueue()
        await eventually(lambda: job_status(db, handle.id) == "canceled", what="a canceled job")


async def test_a_running_thread_handler_sees_its_cancellation(app, db):
    started, notified = threading.Event(), []

    @app.job()
    def work(job: posthouse.Job):
        started.set()
        try:
            while True:
                time.sleep(0.01)
        except posthouse.Cancel:
            notified.append(job.canceled)
            raise

    handle = await work.enqueue()
    async with running_worker(app):
        await asyncio.to_thread(started.wait, 20)
        assert cancel(db, handle.id) == "canceling"
        await eventually(lambda: job_status(db, handle.id) == "canceled")
    assert notified == [True]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_invariant_17_a_job_canceled_while_it_runs_never_succeeds(app, db, in_thread):
    """Even if its handler takes no notice and returns."""
    started, go_on = threading.Event(), threading.Event()

    async def work_async():
        started.set()
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return "done"

    def work_thread():
        started.set()
        while not go_on.is_set():
            with suppress(posthouse.Cancel):
                time.sleep(0.01)
        return "done"

    work = app.job("work")(work_thread if in_thread else work_async)
    handle = await work.enqueue()
    async with running_worker(app, cancel_grace_seconds=20) as worker:
        await asyncio.to_thread(started.wait, 20)
        cancel(db, handle.id)
        await eventually(
            lambda: all(attempt.is_cancel_requested for attempt in worker.executor.leased.values())
        )
        go_on.set()
        await eventually(lambda: job_status(db, handle.id) != "running")
    assert job_status(db, handle.id) == "canceled"
    assert attempt_outcomes(db, handle.id) == [(1, "canceled")]


async def test_invariant_17_a_success_that_crosses_a_cancellation_is_canceled(app, db):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job()
    async def work():
        started.set()
        await go_on.wait()
        return "done"

    handle = await work.enqueue()
    async with running_worker(app, heartbeat_seconds=60, lease_seconds=120) as worker:
        await wait_for_startup_heartbeats(worker)
        await asyncio.wait_for(started.wait(), 20)
        db.execute("update posthouse.running set cancel_requested_at = posthouse.now()")  # not told yet
        go_on.set()
        await eventually(lambda: not worker.executor.leased)
    assert job_status(db, handle.id) == "canceled"


@pytest.mark.parametrize("ending", [ValueError(), posthouse.Snooze(0)])
async def test_a_job_canceled_while_it_runs_does_not_come_back(app, db, ending):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job(retry=posthouse.Retry(0))
    async def work():
        started.set()
        await go_on.wait()
        raise ending

    handle = await work.enqueue()
    async with running_worker(app, heartbeat_seconds=60, lease_seconds=120) as worker:
        await wait_for_startup_heartbeats(worker)
        await asyncio.wait_for(started.wait(), 20)
        db.execute("update posthouse.running set cancel_requested_at = posthouse.now()")
        go_on.set()
        await eventually(lambda: not worker.executor.leased)
        await eventually(lambda: job_status(db, handle.id) != "running")
    assert job_status(db, handle.id) == "canceled"


async def test_invariant_17_a_job_canceled_in_the_queue_never_starts(app, db):
    ran = []

    @app.job()
    async def work(number: int):
        ran.append(number)

    handles = [await work.enqueue(number=number) for number in range(20)]
    for handle in handles[::2]:
        assert cancel(db, handle.id) == "canceled"
    assert await testing.drain(app) == {"succeeded": 10}
    assert sorted(ran) == list(range(1, 20, 2))


@pytest.mark.parametrize("in_thread", [False, True])
async def test_progress_is_stored_and_extends_the_lease(app, db, in_thread):
    async def work_async(job: posthouse.Job):
        await job.progress(40, step="transcoding", message="2 of 5")
        seen.update(job_row(db, job.id))

    def work_thread(job: posthouse.Job):
        job.progress(40, step="transcoding", message="2 of 5")
        seen.update(job_row(db, job.id))

    seen = {}
    work = app.job("work")(work_thread if in_thread else work_async)
    await work.enqueue()
    async with running_worker(app, heartbeat_seconds=60, lease_seconds=120):
        await eventually(lambda: seen)
    assert (seen["progress_percent"], seen["current_step"], seen["progress_message"]) == (
        40.0, "transcoding", "2 of 5",
    )  # fmt: skip
    lease = seen["lease_expires_at"] - seen["attempt_started_at"]
    assert lease.total_seconds() > 120, "longer than the one that the claim gave"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_progress_on_a_lost_lease_says_so_and_writes_nothing(app, db, in_thread):
    started, go_on, errors = threading.Event(), threading.Event(), []

    async def work_async(job: posthouse.Job):
        started.set()
        await asyncio.to_thread(go_on.wait, 20)
        try:
            await job.progress(99)
        except posthouse.LeaseLost as error:
            errors.append(error)

    def work_thread(job: posthouse.Job):
        started.set()
        go_on.wait(20)
        try:
            job.progress(99)
        except posthouse.LeaseLost as error:
            errors.append(error)

    work = app.job("work")(work_thread if in_thread else work_async)
    handle = await work.enqueue()
    async with running_worker(app, keeper=False, heartbeat_seconds=60, lease_seconds=120) as worker:
        await wait_for_startup_heartbeats(worker)
        await asyncio.to_thread(started.wait, 20)
        worker.fetcher.is_stopping = True
        expire_lease_and_rescue(db, handle.id)
        claim_as_other_worker(db)
        go_on.set()
        await eventually(lambda: errors)
        await eventually(lambda: not worker.executor.leased)
        await worker.stop()
    assert job_row(db, handle.id)["progress_percent"] is None
    assert job_status(db, handle.id) == "running"


async def test_a_beat_that_finds_the_lease_lost_ends_the_handler_and_nothing_is_written(app, db):
    started, notified = asyncio.Event(), asyncio.Event()

    @app.job()
    async def work():
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            notified.set()
            raise

    handle = await work.enqueue()
    async with running_worker(app, keeper=False) as worker:
        await asyncio.wait_for(started.wait(), 20)
        worker.fetcher.is_stopping = True
        expire_lease_and_rescue(db, handle.id)
        taken = claim_as_other_worker(db)
        await asyncio.wait_for(notified.wait(), 20)
        await eventually(lambda: not worker.executor.leased)
        await worker.stop()
    job = job_row(db, handle.id)
    assert (job["status"], job["attempt_count"]) == ("running", 2)
    assert taken[0] == handle.id
    assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "running")]


async def test_a_worker_that_lost_a_job_and_gets_it_again_runs_it_anew(app, db):
    """The late verdict on the first lease must not hit the second."""
    starts, go_on = [], asyncio.Event()

    @app.job()
    async def work(job: posthouse.Job):
        starts.append(job.attempt)
        await go_on.wait()
        return job.attempt

    handle = await work.enqueue()
    async with running_worker(app, keeper=False) as worker:
        await eventually(lambda: starts == [1])
        expire_lease_and_rescue(db, handle.id)
        await eventually(lambda: starts == [1, 2])
        beats = worker.heartbeat.beats
        await eventually(lambda: worker.heartbeat.beats >= beats + 3)
        go_on.set()
        assert await handle.wait("20s") == 2
    assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]


async def test_a_renewed_lease_is_never_rescued(app, db):
    """Invariant 9: the job runs for three leases, as the clock of the database tells."""
    go_on = asyncio.Event()
    left = "select min(lease_expires_at) - posthouse.now() > interval '50 s' from posthouse.running"

    @app.job()
    async def work():
        await go_on.wait()

    handles = [await work.enqueue() for _ in range(5)]
    async with running_worker(app, heartbeat_seconds=0.1, lease_seconds=60), testing.clock(app) as clock:
        await eventually(lambda: status_counts(db) == {"running": 5})
        for _ in range(4):
            await clock.advance("45s")
            await eventually(lambda: db.execute(left).fetchone() == (True,), what="the renewal")
        go_on.set()
        await eventually(lambda: status_counts(db) == {"succeeded": 5})
    assert {job_row(db, handle.id)["crashes"] for handle in handles} == {0}


@pytest.mark.parametrize("how", ["sleep", "spin"])
async def test_a_handler_that_blocks_the_loop_keeps_its_lease_and_is_ended_by_its_timeout(app, db, how):
    leases = set()

    @app.job(timeout="3s", max_attempts=1)
    async def block():
        deadline = time.monotonic() + WAIT_SECONDS
        while len(leases) < 3:  # that of the claim, and two that were renewed meanwhile
            leases.add(db.execute("select lease_expires_at from posthouse.running").fetchone())
        while time.monotonic() < deadline:
            if how == "sleep":
                time.sleep(60)  # noqa: ASYNC251 - the very thing

    @app.job()
    async def neighbour():
        return "fine"

    handle = await block.enqueue()
    async with running_worker(app, heartbeat_seconds=0.1):
        await eventually(lambda: leases)  # returns when the loop is free again
        await neighbour.enqueue()
        await eventually(lambda: status_counts(db) == {"dead_letter": 1, "succeeded": 1})
    assert len(leases) == 3
    assert attempt_outcomes(db, handle.id) == [(1, "timeout")]
    assert job_row(db, handle.id)["crashes"] == 0, "the lease was renewed all the time"
    assert "blocked the event loop" in job_row(db, handle.id)["last_error"]


def test_a_blocked_loop_outside_the_main_thread_does_not_kill_the_process(settings, db):
    """No signal can end it there: it ends when it ends."""
    outcome = {}

    async def main():
        async with posthouse.App(settings=settings) as app:

            @app.job(timeout="100ms", max_attempts=1)
            async def block():
                time.sleep(1.5)  # noqa: ASYNC251 - the very thing

            handle = await block.enqueue()
            outcome["drained"] = await testing.drain(app)
            outcome["id"] = handle.id

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(60)
    assert outcome["drained"] == {"succeeded": 1}
    assert attempt_outcomes(db, outcome["id"]) == [(1, "succeeded")]
