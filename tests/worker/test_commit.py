"""job.commit(): the handler's writes and the completion in one transaction. And follow-ups."""

import asyncio
import threading
import time
from datetime import timedelta

import psycopg
import pytest

import posthouse
from posthouse import testing
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


@pytest.fixture
def ledger(db):
    """A table of the user's own, and what stands in it."""
    db.execute("create table ledger (entry text)")
    return lambda: [entry for (entry,) in db.execute("select entry from ledger order by entry").fetchall()]


async def _write(connection, entry):
    await connection.execute("insert into ledger values (%s)", (entry,))


async def test_writes_and_completion_land_together(app, db, ledger):
    @app.job()
    async def pay(job: posthouse.Job):
        async with job.commit() as connection:
            await _write(connection, "paid")
            job.result = {"receipt": 7}

    handle = await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ledger() == ["paid"]
    assert await handle.wait("60s") == {"receipt": 7}
    (same,) = db.execute(
        "select l.xmin = h.xmin from ledger l, posthouse.history h where h.id = %s", (handle.id,)
    ).fetchone()
    assert same, "one transaction wrote both"


async def test_a_thread_handler_commits_with_a_plain_with(app, ledger):
    @app.job()
    def pay(job: posthouse.Job):
        with job.commit() as connection:
            connection.execute("insert into ledger values ('paid')")
            job.result = "receipt"

    handle = await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ledger() == ["paid"]
    assert await handle.wait("60s") == "receipt"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_block_that_raises_writes_nothing_and_the_job_is_retried(app, db, ledger, in_thread):
    async def pay_async(job: posthouse.Job):
        async with job.commit() as connection:
            await _write(connection, f"attempt {job.attempt}")
            if job.attempt == 1:
                raise ValueError

    def pay_thread(job: posthouse.Job):
        with job.commit() as connection:
            connection.execute("insert into ledger values (%s)", (f"attempt {job.attempt}",))
            if job.attempt == 1:
                raise ValueError

    pay = app.job("pay", retry=posthouse.Retry(0))(pay_thread if in_thread else pay_async)
    handle = await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ledger() == ["attempt 2"]
    assert attempt_outcomes(db, handle.id) == [(1, "failed"), (2, "succeeded")]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_handler_that_lost_its_lease_writes_nothing(app, db, ledger, in_thread):
    """The classic: a worker stalls, its job is given to another, and then it wakes up and commits."""
    stalled, go_on = threading.Event(), threading.Event()
    errors = []

    async def pay_async(job: posthouse.Job):
        stalled.set()
        await asyncio.to_thread(go_on.wait, 20)
        try:
            async with job.commit() as connection:
                await _write(connection, "by the first")
        except posthouse.LeaseLost as error:
            errors.append(error)
            raise

    def pay_thread(job: posthouse.Job):
        stalled.set()
        go_on.wait(20)
        try:
            with job.commit() as connection:
                connection.execute("insert into ledger values ('by the first')")
        except posthouse.LeaseLost as error:
            errors.append(error)
            raise

    pay = app.job("pay")(pay_thread if in_thread else pay_async)
    handle = await pay.enqueue()
    # No beat in the length of this test: the worker does not hear that it lost the lease.
    async with running_worker(app, keeper=False, heartbeat_seconds=60, lease_seconds=120) as worker:
        await wait_for_startup_heartbeats(worker)
        await asyncio.to_thread(stalled.wait, 20)
        worker.fetcher.is_stopping = True
        expire_lease_and_rescue(db, handle.id)
        _, token = claim_as_other_worker(db)
        go_on.set()
        await eventually(lambda: errors, what="LeaseLost")
        await eventually(lambda: not worker.executor.leased)
        assert ledger() == []
        with db.transaction():
            db.execute("insert into ledger values ('by the second')")
            done = db.execute("select posthouse.complete(%s, %s, null, null)", (handle.id, token))
            assert done.fetchone() == ("succeeded",)
        await worker.stop()
    assert ledger() == ["by the second"]
    assert job_status(db, handle.id) == "succeeded"
    assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]


async def test_a_commit_whose_reply_was_lost_is_not_made_twice_by_a_handler_that_tries_again(app, db, ledger):
    @app.job(max_attempts=1)
    async def pay(job: posthouse.Job):
        for _ in range(2):
            async with job.commit() as connection:
                await _write(connection, "paid")
            job._attempt.is_finished = False  # as if the reply to COMMIT had not arrived

    handle = await pay.enqueue()
    await testing.drain(app)
    assert ledger() == ["paid"]
    assert job_status(db, handle.id) == "succeeded"


async def test_a_second_commit_is_refused(app, ledger):
    refused = []

    @app.job()
    async def pay(job: posthouse.Job):
        async with job.commit() as connection:
            await _write(connection, "once")
        try:
            async with job.commit() as connection:
                await _write(connection, "twice")
        except posthouse.LeaseLost as error:
            refused.append(error)

    await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ledger() == ["once"]
    assert len(refused) == 1


async def test_a_heartbeat_between_a_commit_and_its_reply_does_not_interrupt_the_handler(app, db, ledger):
    """The loop is busy when the reply arrives, and the heartbeat's thread finds that the lease is gone."""
    loop = asyncio.get_running_loop()
    reached = []

    def be_busy():
        if not ledger():  # not committed yet
            loop.call_soon(be_busy)
            return
        for _ in range(2):
            (before,) = db.execute("select max(heartbeat_at) from posthouse.workers").fetchone()
            while db.execute("select max(heartbeat_at) from posthouse.workers").fetchone() == (before,):
                time.sleep(0.02)

    @app.job()
    async def pay(job: posthouse.Job):
        await asyncio.sleep(0.5)  # longer than a heartbeat: the next one renews the lease
        async with job.commit() as connection:
            await _write(connection, "paid")
            loop.call_soon(be_busy)
        reached.append("the end")

    await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert reached == ["the end"]


async def test_what_a_handler_raises_after_its_commit_changes_nothing(app, db, ledger):
    @app.job()
    async def pay(job: posthouse.Job):
        async with job.commit() as connection:
            await _write(connection, "paid")
        raise ValueError("too late")

    handle = await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]


async def test_a_handler_may_go_on_after_its_commit(app, db, ledger):
    """Its lease is gone with the completion: that is no reason to cancel it."""
    ended = []

    @app.job()
    async def pay(job: posthouse.Job):
        async with job.commit() as connection:
            await _write(connection, "paid")
        job._attempt.lease_expires_at = time.monotonic()  # that of the claim ends: it is not renewed any more
        beats = worker.heartbeat.beats
        try:
            await eventually(lambda: worker.heartbeat.beats >= beats + 5)
        except asyncio.CancelledError:
            ended.append("canceled")
            raise
        ended.append("of its own accord")

    handle = await pay.enqueue()
    async with running_worker(app, heartbeat_seconds=0.05) as worker:
        await eventually(lambda: ended)
    assert ended == ["of its own accord"]
    assert job_status(db, handle.id) == "succeeded"


async def test_a_commit_of_a_job_whose_cancellation_was_asked_for_writes_nothing(app, db, ledger):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job()
    async def pay(job: posthouse.Job):
        started.set()
        await go_on.wait()
        async with job.commit() as connection:
            await _write(connection, "paid")
            job.enqueue("follow", {})

    handle = await pay.enqueue()
    async with running_worker(app, heartbeat_seconds=60, lease_seconds=120) as worker:
        await wait_for_startup_heartbeats(worker)
        await asyncio.wait_for(started.wait(), 20)
        # Asked for, but the notification is on its way: the handler has not been told.
        db.execute("update posthouse.running set cancel_requested_at = posthouse.now()")
        go_on.set()
        await eventually(lambda: not worker.executor.leased)
    assert job_status(db, handle.id) == "canceled"
    assert ledger() == []
    assert status_counts(db) == {"canceled": 1}


async def test_a_commit_that_postgres_refuses_at_the_end_is_a_failure(app, db, ledger):
    db.execute("create table orders (id int primary key)")
    db.execute("alter table ledger add order_id int references orders deferrable initially deferred")

    @app.job(max_attempts=1)
    async def pay(job: posthouse.Job):
        async with job.commit() as connection:
            await connection.execute("insert into ledger values ('paid', 7)")

    handle = await pay.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert ledger() == []
    assert "ForeignKeyViolation" in job_row(db, handle.id)["error"]["type"]


async def test_a_job_that_never_commits_completes_as_usual(app, ledger):
    @app.job()
    async def pay(job: posthouse.Job, do: bool):
        if do:
            async with job.commit():
                job.result = "committed"
        return "returned"

    first, second = await pay.enqueue(do=True), await pay.enqueue(do=False)
    assert await testing.drain(app) == {"succeeded": 2}
    assert [await handle.wait("60s") for handle in (first, second)] == ["committed", "returned"]


async def test_handlers_that_use_up_both_pools_do_not_hurt_the_leases(app, db, ledger):
    release = threading.Event()

    @app.job()
    async def pay(job: posthouse.Job, number: int):
        async with job.commit() as connection:
            await _write(connection, f"async {number:02}")
            await asyncio.to_thread(release.wait, WAIT_SECONDS)

    @app.job()
    def pay_thread(job: posthouse.Job, number: int):
        with job.commit() as connection:
            connection.execute("insert into ledger values (%s)", (f"thread {number:02}",))
            release.wait(WAIT_SECONDS)

    for number in range(22):
        await pay.enqueue(number=number)
        await pay_thread.enqueue(number=number)
    async with running_worker(app, heartbeat_seconds=0.1, concurrency=50) as worker:
        await eventually(lambda: len(worker.executor.leased) == 44)
        (last,) = db.execute("select max(lease_expires_at) from posthouse.running").fetchone()
        renewed = "select min(lease_expires_at) > %s from posthouse.running"
        await eventually(
            lambda: db.execute(renewed, (last,)).fetchone() == (True,), what="the renewal of all"
        )
        release.set()
        await eventually(lambda: status_counts(db) == {"succeeded": 44})
    assert len(ledger()) == 44
    assert db.execute("select sum(crashes) from posthouse.history").fetchone() == (0,)


async def test_follow_ups_land_with_the_completion(app, db):
    seen = []

    @app.job()
    async def first(job: posthouse.Job):
        seen.append(job.enqueue(second, number=1))
        seen.append(job.enqueue("second", {"number": 2}))
        await eventually(lambda: True)
        assert status_counts(db) == {"running": 1}, "not before it has completed"

    @app.job()
    async def second(job: posthouse.Job, number: int):
        return str(job.parent_id)

    handle = await first.enqueue()
    assert await testing.drain(app) == {"succeeded": 3}
    assert {job_row(db, job_id)["result"] for job_id in seen} == {str(handle.id)}
    assert {job_row(db, job_id)["correlation_id"] for job_id in seen} == {str(handle.id)}


@pytest.mark.parametrize("ending", [ValueError(), posthouse.Fail(), posthouse.Cancel(), posthouse.Snooze(0)])
async def test_a_job_that_does_not_succeed_leaves_no_follow_ups(app, db, ending):
    runs = []

    @app.job(retry=posthouse.Retry("1h"))
    async def first(job: posthouse.Job):
        job.enqueue("second")
        runs.append(job.attempt)
        if len(runs) == 1:
            raise ending
        return posthouse.Cancel()

    await first.enqueue()
    await testing.drain(app)
    assert db.execute("select count(*) from posthouse.jobs where kind = 'second'").fetchone() == (0,)


async def test_follow_ups_of_a_commit_land_with_it(app, db, ledger):
    @app.job(retry=posthouse.Retry(0))
    async def first(job: posthouse.Job):
        job.enqueue("second", {"attempt": job.attempt})
        async with job.commit() as connection:
            await _write(connection, "paid")
            if job.attempt == 1:
                raise ValueError

    await first.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    payloads = db.execute("select payload from posthouse.jobs where kind = 'second'").fetchall()
    assert payloads == [({"attempt": 2},)]


async def test_follow_ups_of_a_canceled_job_are_dropped_even_if_its_handler_returns(app, db):
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job()
    async def first(job: posthouse.Job):
        job.enqueue("second")
        started.set()
        await go_on.wait()

    handle = await first.enqueue()
    async with running_worker(app, heartbeat_seconds=60, lease_seconds=120) as worker:
        await wait_for_startup_heartbeats(worker)
        await asyncio.wait_for(started.wait(), 20)
        db.execute("update posthouse.running set cancel_requested_at = posthouse.now()")
        go_on.set()
        await eventually(lambda: not worker.executor.leased)
    assert job_status(db, handle.id) == "canceled"
    assert status_counts(db) == {"canceled": 1}


async def test_a_follow_up_may_have_options(app, db):
    @app.job()
    async def first(job: posthouse.Job):
        job.enqueue("second", options={"delay": "1h", "tenant": "other", "priority": "low"})

    await first.using(tenant="acme").enqueue()
    await testing.drain(app)
    (job,) = await testing.enqueued(app, "second")
    assert (job["tenant_id"], job["priority"], job["job_table"]) == ("other", 200, "waiting")
    assert job["scheduled_for"] - job["queued_at"] == timedelta(hours=1)


async def test_a_chain_runs_in_order(app):
    order = []

    @app.job()
    async def step(number: int):
        order.append(number)
        return number

    previous = None
    for number in range(4):
        options = {} if previous is None else {"depends_on": [previous.id]}
        previous = await step.using(**options).enqueue(number=number)
    assert await testing.drain(app) == {"succeeded": 4}
    assert order == [0, 1, 2, 3]


async def test_a_fan_in_waits_for_all(app):
    done = []

    @app.job()
    async def part(number: int):
        done.append(number)

    @app.job()
    async def whole():
        return sorted(done)

    parts = [await part.enqueue(number=number) for number in range(10)]
    handle = await whole.using(depends_on=[item.id for item in parts]).enqueue()
    assert await testing.drain(app) == {"succeeded": 11}
    assert await handle.wait("60s") == list(range(10))


@pytest.mark.parametrize(
    ("policy", "expected"), [("cancel", "canceled"), ("run", "succeeded"), ("wait", "queued")]
)
async def test_a_failed_dependency_decides_by_policy(app, db, policy, expected):
    @app.job()
    async def fall():
        raise posthouse.Fail

    @app.job()
    async def then():
        pass

    first = await fall.enqueue()
    second = await then.using(depends_on=[first.id], on_dependency_failure=policy).enqueue()
    await testing.drain(app)
    assert job_status(db, second.id) == expected


async def test_canceled_dependants_cancel_theirs(app, db):
    @app.job()
    async def fall():
        raise posthouse.Fail

    @app.job()
    async def then():
        pass

    first = await fall.enqueue()
    second = await then.using(depends_on=[first.id]).enqueue()
    third = await then.using(depends_on=[second.id]).enqueue()
    assert await testing.drain(app) == {"failed": 1, "canceled": 2}
    assert job_row(db, third.id)["error"]["type"] == "DependencyFailed"


async def test_a_job_enqueued_in_a_handler_s_own_transaction_lands_with_it(app, db):
    @app.job(max_attempts=1)
    async def first(job: posthouse.Job, fail: bool):
        async with job.commit() as connection:
            await second.enqueue(connection=connection)
            if fail:
                raise ValueError

    @app.job()
    async def second():
        pass

    await first.enqueue(fail=True)
    assert await testing.drain(app) == {"dead_letter": 1}
    await first.enqueue(fail=False)
    assert await testing.drain(app) == {"succeeded": 2}


async def test_a_handler_cannot_use_the_connection_of_another_commit(app, db, ledger):
    """Each commit has a transaction of its own."""
    meeting = asyncio.Barrier(2)

    @app.job()
    async def pay(job: posthouse.Job, fail: bool):
        async with job.commit() as connection:
            await _write(connection, f"fail={fail}")
            await meeting.wait()
            if fail:
                raise posthouse.Fail

    await pay.enqueue(fail=True)
    await pay.enqueue(fail=False)
    assert await testing.drain(app) == {"succeeded": 1, "failed": 1}
    assert ledger() == ["fail=False"]


async def test_a_broken_connection_in_a_commit_is_a_retry(app, db, ledger):
    @app.job(retry=posthouse.Retry(0))
    async def pay(job: posthouse.Job):
        async with job.commit() as connection:
            await _write(connection, f"attempt {job.attempt}")
            if job.attempt == 1:
                with psycopg.connect(app.settings.database_url, autocommit=True) as other:
                    other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))

    handle = await pay.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ledger() == ["attempt 2"]
    assert cancel(db, handle.id) == "succeeded"


async def test_a_transaction_of_its_own_is_there_for_each_runner(app, ledger):
    @app.job()
    async def note(job: posthouse.Job):
        async with job.transaction() as connection:
            await _write(connection, "async")
        return "noted"

    @app.job()
    def note_in_thread(job: posthouse.Job):
        with job.transaction() as connection:
            connection.execute("insert into ledger values ('thread')")
        with job.transaction() as connection:
            return connection.execute("select count(*) from ledger where entry = 'thread'").fetchone()[0]

    handles = [await note.enqueue(), await note_in_thread.enqueue()]
    assert await testing.drain(app) == {"succeeded": 2}
    assert [await handle.wait("60s") for handle in handles] == ["noted", 1]
    assert ledger() == ["async", "thread"]


async def test_a_transaction_that_fails_is_rolled_back_and_the_attempt_with_it(app, ledger):
    @app.job(max_attempts=1)
    async def note(job: posthouse.Job):
        async with job.transaction() as connection:
            await _write(connection, "never")
            raise ValueError("no")

    await note.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert ledger() == []
