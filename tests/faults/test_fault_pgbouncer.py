"""Everything through a transaction pooler: each statement may meet another session, so there is no LISTEN,
no lock that outlives a transaction and no prepared statement.
"""

import asyncio

import httpx
import psycopg
import pytest

import posthouse
from posthouse import insights
from posthouse.identity import Role, issue_key
from posthouse.settings import Settings
from posthouse.storage.connections import connect_async
from support.event_stream import streaming
from support.pgbouncer import PGBOUNCER, running_pgbouncer
from support.server import RunningServer
from support.waiting import WAIT_SECONDS, eventually
from support.worker_processes import SHORT_LEASE
from support.workers import attempt_outcomes, cancel, job_row, job_status, running_worker, status_counts

LIVENESS, HUNGER, ENDINGS, FOLLOWED = 7701, 7702, 7703, 7706  # the classes of locks that belong to a session
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@pytest.fixture(scope="module")
def pooler(server):
    with running_pgbouncer(server) as pooler:
        yield pooler


@pytest.fixture
def settings(pooler, database):
    return Settings(
        database_url=pooler.url_for(database),
        heartbeat_seconds=0.2,
        lease_seconds=20.0,
        cancel_grace_seconds=0.5,
        rescue_grace_seconds=0.0,
        drain_seconds=5.0,
        poll_seconds=0.1,
    )


async def test_the_worker_notices_the_pooler_and_carries_on_by_polling(app, db):
    @app.job()
    async def work() -> str:
        return "done"

    async with running_worker(app) as worker:
        await eventually(lambda: not worker.listener.is_available, what="the end of listening")
        await eventually(lambda: not worker.fetcher.can_receive_wakeups)
        assert await (await work.enqueue()).wait("20s") == "done"
        await eventually(lambda: worker.heartbeat.beats > 2)
        assert db.execute("select watched from posthouse.workers").fetchall() == [(False,)]
        assert not worker.failed.is_set()


async def test_nothing_stays_locked_in_the_sessions_that_others_use(app, db):
    """A lock that was meant for one connection would belong to the next client of the session."""

    @app.job()
    async def work():
        pass

    async with running_worker(app):
        for _ in range(20):
            await (await work.enqueue()).wait("20s")
        assert _session_locks(db) == []
    assert _session_locks(db) == []


async def test_one_and_many_are_enqueued_and_run_through_the_pooler(app, db):
    @app.job()
    async def double(number: int) -> int:
        return 2 * number

    one = await double.enqueue(number=21)
    with_key = await double.using(dedupe_key="k").enqueue(number=4)
    many = await app.client.enqueue_many(double.request({"number": number}) for number in range(1000))
    in_thread = await asyncio.to_thread(double.enqueue_sync, number=8)
    async with running_worker(app):
        assert await one.wait("20s") == 42
        assert await with_key.wait("20s") == 8
        assert await asyncio.to_thread(in_thread.wait, "20s") == 16
        assert [await handle.wait("20s") for handle in many[-20:]] == list(range(1960, 2000, 2))
        await eventually(lambda: status_counts(db) == {"succeeded": 1003})


async def test_an_enqueue_belongs_to_the_caller_s_transaction(app, db, settings):
    @app.job()
    async def work():
        pass

    async with await psycopg.AsyncConnection.connect(settings.database_url) as connection:
        connection.prepare_threshold = None  # a caller behind a pooler does not prepare either
        await work.enqueue(connection=connection)
        await connection.rollback()
        kept = await work.enqueue(connection=connection)
        await connection.commit()
    assert db.execute("select id from posthouse.jobs").fetchall() == [(kept.id,)]


async def test_a_running_job_is_canceled_by_the_next_beat(app, db):
    started = asyncio.Event()

    @app.job()
    async def endless():
        started.set()
        await asyncio.Event().wait()

    handle = await endless.enqueue()
    async with running_worker(app):
        await started.wait()
        cancel(db, handle.id)
        with pytest.raises(posthouse.JobFailed, match="canceled"):
            await handle.wait("20s")
    assert job_status(db, handle.id) == "canceled"


async def test_progress_retries_and_own_commits_work_through_the_pooler(app, db):
    db.execute("create table effects (job_id uuid not null)")

    @app.job(retry=posthouse.Retry("50ms"))
    async def careful(job: posthouse.Job):
        async with job.commit() as connection:
            await connection.execute("insert into effects values (%s)", (job.id,))
            if job.attempt == 1:
                raise ValueError("not yet")

    @app.job()
    def threaded(job: posthouse.Job):
        with job.commit() as connection:
            connection.execute("insert into effects values (%s)", (job.id,))

    @app.job()
    async def stepwise(job: posthouse.Job):
        for step in range(1, 11):
            await job.progress(10 * step, step=f"step {step}")

    first = [await careful.enqueue() for _ in range(10)]
    second = [await threaded.enqueue() for _ in range(10)]
    third = await stepwise.enqueue()
    async with running_worker(app):
        for handle in [*first, *second, third]:
            await handle.wait("20s")
    for handle in first:
        assert attempt_outcomes(db, handle.id) == [(1, "failed"), (2, "succeeded")]
    effects = db.execute("select job_id from effects").fetchall()
    assert sorted(effects) == sorted((handle.id,) for handle in first + second)
    assert (job_row(db, third.id)["progress_percent"], job_row(db, third.id)["current_step"]) == (
        100,
        "step 10",
    )


async def test_parts_steps_and_the_live_log_work_through_the_pooler(app, db, settings):
    @app.job(retry=posthouse.Retry("50ms"))
    async def stepwise(job: posthouse.Job):
        for step in range(10):
            job.log.info("%d.%d", job.attempt, step)
            await job.step_commit(f"one:{step}", _nothing)
            await job.step(f"two:{step}", lambda step=step: step)
            await job.part(f"part {step}").complete()
            if (job.attempt, step) == (1, 5):
                raise ValueError("not yet")

    handle = await stepwise.enqueue()
    connection = await connect_async(settings.database_url, "follower")
    async with running_worker(app), connection, asyncio.timeout(WAIT_SECONDS):
        seen = [line.text async for page in insights.follow_log(connection, handle.id) for line in page]
    assert seen == [f"1.{step}" for step in range(6)] + [f"2.{step}" for step in range(10)]
    assert db.execute("select attempt, count(*) from posthouse.steps group by 1 order by 1").fetchall() == [
        (1, 12),
        (2, 8),
    ]
    assert job_row(db, handle.id)["progress_percent"] == 100
    assert _session_locks(db) == []


async def _nothing(connection):
    await connection.execute("select 1")


async def test_live_streams_find_changes_without_notifications(app, db, settings):
    @app.job()
    async def talk(job: posthouse.Job) -> None:
        job.log.info("hello")

    async with await connect_async(settings.database_url, "test") as connection:
        key = await issue_key(connection, "looks on", Role.TENANT_VIEWER, tenant="default", actor="test")
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        RunningServer(settings) as server,
        httpx.AsyncClient(base_url=server.url, headers=headers) as client,
    ):
        async with streaming(client) as stream:
            later = await talk.using(delay="1h").enqueue()
            await stream.until(lambda s: s.statuses(later.id) == ["queued"])
            cancel(db, later.id)
            await stream.until(lambda s: s.statuses(later.id) == ["queued", "canceled"])
            with db.transaction():  # never seen while it is queued
                quick = db.execute("select posthouse.enqueue('talk')").fetchone()[0]
                cancel(db, quick)
            await stream.until(lambda s: s.statuses(quick) == ["canceled"])
            async with running_worker(app):
                handle = await talk.enqueue()
                async with streaming(client, job=handle.id) as followed:
                    await followed.until(lambda s: s.of("log"))
                    await followed.until(lambda s: "succeeded" in s.statuses(handle.id))
                await stream.until(lambda s: "succeeded" in s.statuses(handle.id))
        assert _session_locks(db) == []


async def test_hundreds_of_statements_meet_no_prepared_statement_of_another_session(app, db, caplog):
    """psycopg prepares what it has sent five times; here every statement goes far beyond that."""

    @app.job()
    async def work(number: int) -> int:
        return number

    async def in_turn(numbers):
        for number in numbers:
            assert await (await work.enqueue(number=number)).wait("30s") == number

    async with running_worker(app, concurrency=2, poll_seconds=0.02):
        await asyncio.gather(*(in_turn(range(start, start + 15)) for start in range(0, 60, 15)))
    # At most four jobs were there at a time: so there were many claims.
    (claims,) = db.execute("select count(distinct token) from posthouse.history").fetchone()
    assert claims >= 60 / 4
    assert [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}] == []
    assert {count for (count,) in db.execute("select attempt_count from posthouse.jobs").fetchall()} == {1}


async def test_jobs_of_a_killed_process_come_back_when_their_lease_is_over(
    app, db, settings, worker_processes, files
):
    hold = {"started": files.started, "until": files.until}
    handles = [await app.client.enqueue("hold", hold, max_attempts=5) for _ in range(3)]
    doomed = worker_processes.start(url=settings.database_url, **SHORT_LEASE)
    await eventually(lambda: len(files.starts()) == 3, what="the start of the jobs")
    doomed.kill()
    files.go_on()
    worker_processes.start(url=settings.database_url)
    for handle in handles:
        assert await handle.wait("30s") == "released"
        assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]


async def test_with_a_direct_url_workers_are_woken_and_watched_again(app, db, database):
    @app.job()
    async def work() -> str:
        return "done"

    async with running_worker(app, keeper=False, direct_url=database, poll_seconds=600) as worker:
        await eventually(lambda: worker.fetcher._wants_wakeup, what="the wish to be woken")
        await eventually(lambda: LIVENESS in {kind for kind, _ in _session_locks(db)})
        assert db.execute("select watched from posthouse.workers").fetchall() == [(True,)]
        assert worker.listener.is_available
        for _ in range(20):  # through each of the pooler's sessions, and more than once
            worker.fetcher._pause = 600  # it would not look again by itself while the test lasts
            assert await (await work.enqueue()).wait("60s") == "done"
            await eventually(lambda: worker.fetcher._wants_wakeup)
        names = {name for _, name in _session_locks(db)}
        assert names <= {"posthouse heartbeat", "posthouse wakeups"}, "none through the pooler"


async def test_with_a_direct_url_the_jobs_of_a_killed_process_come_back_before_their_lease_ends(
    app, settings, database, worker_processes, files
):
    patient = {"url": settings.database_url, "direct_url": database, "lease_seconds": 3600}
    hold = {"started": files.started, "until": files.until}
    handle = await app.client.enqueue("hold", hold, max_attempts=5)
    doomed = worker_processes.start(**patient)
    await eventually(files.starts, what="the start of the job")
    with psycopg.connect(database, autocommit=True) as db:
        await eventually(lambda: LIVENESS in {kind for kind, _ in _session_locks(db)})
        doomed.kill()
        files.go_on()
        worker_processes.start(**patient)
        assert await handle.wait("30s") == "released"
        assert attempt_outcomes(db, handle.id) == [(1, "lost"), (2, "succeeded")]


def _session_locks(db):
    """Of our classes: which, and who holds it by the name of its connection."""
    return db.execute(
        "select l.classid::integer, a.application_name from pg_locks as l "
        "join pg_stat_activity as a on a.pid = l.pid "
        "where l.locktype = 'advisory' and l.objsubid = 2 and l.classid = any (%s::integer[]) "
        "and l.database = (select oid from pg_database where datname = current_database())",
        ([LIVENESS, HUNGER, ENDINGS, FOLLOWED],),
    ).fetchall()
