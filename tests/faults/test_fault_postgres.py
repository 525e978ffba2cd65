"""Postgres itself fails: it is killed under load, stays away longer than the leases, and comes back."""

import asyncio
import itertools
import os
import signal
import threading
from contextlib import ExitStack, suppress

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.settings import Settings
from posthouse.storage.embedded import attach_server
from posthouse.storage.embedded.layout import locate
from posthouse.storage.embedded.process import is_alive
from support.waiting import eventually, eventually_sync
from support.workers import attempt_outcomes, job_row, running_worker, status_counts

LIVENESS = 7701  # the class of the locks that live workers hold
ROUNDS = 2
JOBS_A_ROUND = 60
ATTEMPTS = 8  # that an errand may have


class Postgres:
    """A server of its own, to be stopped as a crash would stop it. What it had committed it remembers:
    its processes die, not the machine.
    """

    def __init__(self, folder):
        self._layout = locate(folder)
        self._handles = ExitStack()
        self.server = ""
        self.url = ""
        """The database of the test that runs."""

    def start(self):
        settings = {"fsync": "off", "shared_buffers": "16MB"}
        embedded = self._handles.enter_context(attach_server(self._layout.root, settings=settings))
        self.server = embedded.admin_url_for()

    def stop_at_once(self):
        """As `pg_ctl stop -m immediate`: no checkpoint, no goodbye."""
        pid = int((self._layout.cluster / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        eventually_sync(lambda: not is_alive(self._layout), what="the end of all its processes")

    def crash_backend(self):
        """One session dies of SIGKILL: Postgres ends all the others and recovers by itself."""
        with self.connect() as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)

    def connect(self):
        """A connection, when Postgres has recovered from a crash."""
        return eventually_sync(self._try_to_connect, what="a connection")

    def _try_to_connect(self):
        with suppress(psycopg.OperationalError):
            return psycopg.connect(self.url, autocommit=True)

    def close(self):
        self._handles.close()


class Enqueuing:
    """Enqueues one job after the other until its block ends, and remembers which were acknowledged."""

    def __init__(self, client):
        self._client = client
        self._enough = asyncio.Event()
        self.ids = []
        self.with_effect = []

    async def __aenter__(self):
        self._task = asyncio.create_task(self._enqueue())
        return self

    async def __aexit__(self, *_):
        self._enough.set()
        await self._task

    async def more(self, count):
        """Returns when so many more were acknowledged."""
        wanted = len(self.ids) + count
        await eventually(lambda: len(self.ids) >= wanted or self._task.done(), what=f"{count} more jobs")

    async def _enqueue(self):
        for fate in itertools.cycle(("pay", "plain")):
            handle = await self._client.enqueue("errand", {"fate": fate, "seconds": 0.01})
            self.ids.append(handle.id)
            if fate == "pay":
                self.with_effect.append(handle.id)
            if self._enough.is_set():
                return


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One server for all tests of this module, each of which leaves it running."""
    postgres = Postgres(tmp_path_factory.mktemp("faults") / "postgres")
    postgres.start()
    yield postgres
    postgres.close()


@pytest.fixture
def postgres(cluster):
    with testing.database(cluster.server) as cluster.url:
        yield cluster


@pytest.fixture
def database(postgres):
    """Its own, so that the fixtures that ask for a database take this server."""
    return postgres.url


@pytest.fixture
def effects_table(postgres):
    with postgres.connect() as db:
        db.execute("create table effects (job_id uuid not null, attempt integer not null)")


@pytest.fixture
def settings(postgres):
    return Settings(
        database_url=postgres.url,
        heartbeat_seconds=0.2,
        lease_seconds=4.0,
        cancel_grace_seconds=0.5,
        rescue_grace_seconds=5.0,
        poll_seconds=0.2,
    )


async def test_acknowledged_jobs_run_exactly_once_while_postgres_keeps_crashing(
    postgres, settings, worker_processes, effects_table
):
    workers = worker_processes.start(2, rescue_grace_seconds=5)
    async with posthouse.Client(settings=settings) as client, Enqueuing(client) as enqueued:
        for number in range(ROUNDS):
            await enqueued.more(JOBS_A_ROUND)
            if number % 2:
                await asyncio.to_thread(postgres.crash_backend)
            else:
                await asyncio.to_thread(postgres.stop_at_once)
                await asyncio.to_thread(postgres.start)
        await enqueued.more(JOBS_A_ROUND)

    with postgres.connect() as db:
        total = len(enqueued.ids)
        await eventually(
            lambda: status_counts(db) == {"succeeded": total}, what=f"the success of {total} jobs"
        )
        assert _column(db, "select id from posthouse.jobs") == sorted(enqueued.ids)
        assert _column(db, "select job_id from effects") == sorted(enqueued.with_effect)
        assert max(_column(db, "select attempt from posthouse.attempts")) <= ATTEMPTS
        assert _workers(db) == 2
    assert all(worker.alive for worker in workers), "no worker was restarted"
    for worker in workers:
        worker.terminate()
    assert [worker.wait() for worker in workers] == [0, 0]


async def test_jobs_of_live_workers_are_not_rescued_after_an_outage_longer_than_their_leases(
    postgres, settings, app
):
    runs = []
    go = asyncio.Event()

    @app.job()
    async def patient(number: int) -> int:
        runs.append(number)
        await go.wait()
        return number

    handles = [await patient.enqueue(number=number) for number in range(5)]
    async with running_worker(app, concurrency=3) as worker:
        await eventually(lambda: len(runs) == 3)
        await asyncio.to_thread(postgres.stop_at_once)
        # A handler ends when its lease may be over: it must not go on while others may have the job.
        await eventually(lambda: not worker.executor.leased, what="the end of handlers without a lease")
        await asyncio.to_thread(postgres.start)
        with postgres.connect() as db:
            await eventually(lambda: len(runs) > 3, what="the start of a job after the return")
            go.set()
            for handle in handles:
                await handle.wait("30s")
            for handle in handles:
                job = job_row(db, handle.id)
                assert (job["status"], job["crashes"], job["attempt_count"]) == ("succeeded", 0, 1)
                assert "lost" not in {outcome for _, outcome in attempt_outcomes(db, handle.id)}


async def test_outcomes_during_an_outage_of_postgres_are_written_afterwards(postgres, settings, app):
    started, go = asyncio.Event(), asyncio.Event()

    @app.job()
    async def steady() -> str:
        started.set()
        await go.wait()
        return "done meanwhile"

    handle = await steady.enqueue()
    async with running_worker(app, heartbeat_seconds=5, lease_seconds=30) as worker:
        await started.wait()
        await asyncio.to_thread(postgres.stop_at_once)
        go.set()
        await eventually(lambda: not worker.executor.leased, what="the end of the handler")
        await asyncio.to_thread(postgres.start)
        assert await handle.wait("20s") == "done meanwhile"
    with postgres.connect() as db:
        assert attempt_outcomes(db, handle.id) == [(1, "succeeded")]


async def test_a_worker_takes_up_everything_again_after_a_restart(postgres, app):
    """Its claims, its beats with the lock that shows that it lives, and the listening that wakes it."""

    @app.job()
    async def work() -> str:
        return "done"

    async with running_worker(app, keeper=False, poll_seconds=600) as worker:
        assert await (await work.enqueue()).wait("20s") == "done"
        for _ in range(2):
            await asyncio.to_thread(postgres.stop_at_once)
            await asyncio.to_thread(postgres.start)
            with postgres.connect() as db:
                await eventually(lambda db=db: _is_watched(db, worker.id), what="the liveness lock")
                await eventually(lambda db=db: _listens(db), what="the listening connection")
            beats = worker.heartbeat.beats
            await eventually(lambda beats=beats: worker.heartbeat.beats > beats, what="a beat")
            await eventually(lambda: worker.fetcher._wants_wakeup, what="the wish to be woken")
            worker.fetcher._pause = 600  # it would not look again by itself while the test lasts
            assert await (await work.enqueue()).wait("20s") == "done"
    with postgres.connect() as db:
        assert _workers(db) == 1


async def test_connections_that_died_in_the_handlers_pool_cost_no_attempt(postgres, app):
    with postgres.connect() as db:
        db.execute("create table effects (job_id uuid not null)")
    together = asyncio.Barrier(4)
    threads_together = threading.Barrier(4)

    @app.job(max_attempts=1)
    async def careful(job: posthouse.Job):
        async with job.commit() as connection:
            await connection.execute("insert into effects values (%s)", (job.id,))
            await together.wait()

    @app.job(max_attempts=1)
    def careful_thread(job: posthouse.Job):
        with job.commit() as connection:
            connection.execute("insert into effects values (%s)", (job.id,))
            threads_together.wait(20)

    async def run_all():
        handles = [await kind.enqueue() for kind in (careful, careful_thread) for _ in range(4)]
        for handle in handles:
            await handle.wait("30s")

    async with running_worker(app, heartbeat_seconds=2, lease_seconds=30):
        await run_all()
        await asyncio.to_thread(postgres.stop_at_once)
        await asyncio.to_thread(postgres.start)
        await run_all()
    with postgres.connect() as db:
        assert len(_column(db, "select job_id from effects")) == 16


async def test_an_idle_transaction_that_pins_the_horizon_stops_no_work(postgres, app):
    @app.job()
    async def work(number: int) -> int:
        return number

    @app.job(retry=posthouse.Retry(0))
    async def retried(job: posthouse.Job) -> int:
        if job.attempt == 1:
            raise ValueError("not yet")
        return job.attempt

    with psycopg.connect(postgres.url) as idle:
        idle.execute("set transaction isolation level repeatable read")
        idle.execute("select count(*) from posthouse.jobs")
        for _ in range(3):
            await app.client.enqueue_many(work.request({"number": number}) for number in range(300))
            await retried.enqueue()
            assert await testing.drain(app) == {"succeeded": 301}
        assert idle.execute("select count(*) from posthouse.jobs").fetchone() == (0,), "it sees the past"
        with postgres.connect() as db:
            assert status_counts(db) == {"succeeded": 3 * 301}


def _column(db, statement):
    return sorted(value for (value,) in db.execute(statement).fetchall())


def _workers(db):
    """How many workers ever were: one that is started again counts as another."""
    return db.execute("select count(*) from posthouse.workers").fetchone()[0]


def _is_watched(db, worker_id):
    """Whether the worker counts as watched and some session holds its lock."""
    found = db.execute(
        "select from posthouse.workers as w join pg_locks as l on l.objid = w.number "
        "where w.id = %s and w.watched and l.classid = %s and l.granted and l.mode = 'ShareLock'",
        (worker_id, LIVENESS),
    )
    return found.fetchone() is not None


def _listens(db):
    found = db.execute(
        "select from pg_stat_activity where application_name = 'posthouse listener' and query like 'listen%'"
    )
    return found.fetchone() is not None
