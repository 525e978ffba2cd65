"""Handlers that use Django's ORM: no connection is left behind, and broken ones are replaced."""

import subprocess
import sys

import pytest
from asgiref.sync import sync_to_async

import posthouse
from support.django_orm import django_database
from support.waiting import eventually
from support.workers import attempt_outcomes, job_status, running_worker

NAME = "django orm test"
LEFT = "select count(*) from pg_stat_activity where application_name = %s"


@pytest.fixture
def orm(database):
    """Runs a query as the ORM does, on a connection to the test's database."""
    with django_database(database, application_name=NAME) as (connections, alias):

        class Orm:
            def keep_connections(self):
                connections.settings[alias]["CONN_MAX_AGE"] = None

            def query(self, *, close=False):
                with connections[alias].cursor() as cursor:
                    cursor.execute("select pg_sleep(0.01)")
                if close:
                    connections[alias].close()

        yield Orm()


def left(db):
    return db.execute(LEFT, (NAME,)).fetchone()[0]


async def all_ended(db, count):
    ask = "select count(*) from posthouse.history"
    await eventually(lambda: db.execute(ask).fetchone()[0] == count, what="the end of the jobs")


async def test_handlers_in_threads_leave_no_connections(app, db, orm):
    @app.job()
    def count(number: int) -> None:
        orm.query()

    async with running_worker(app, concurrency=20):
        await app.client.enqueue_many([count.request({"number": number}) for number in range(100)])
        await all_ended(db, 100)
        # The session of a connection ends a moment after the connection was closed.
        await eventually(lambda: left(db) == 0, what="the end of the connections")


async def test_async_handlers_leave_no_connections(app, db, orm):
    @app.job()
    async def count(number: int) -> None:
        await sync_to_async(orm.query)()

    async with running_worker(app, concurrency=20):
        await app.client.enqueue_many([count.request({"number": number}) for number in range(20)])
        await all_ended(db, 20)
        await eventually(lambda: left(db) == 0, what="the end of the connection")


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_second_attempt_after_a_broken_connection_succeeds(app, db, orm, is_async):
    orm.keep_connections()

    def query(*, close: bool = False) -> None:
        orm.query(close=close)

    async def query_async(*, close: bool = False) -> None:
        await sync_to_async(orm.query)(close=close)

    job = app.job("query", retry=posthouse.Retry(0, 0, 0))(query_async if is_async else query)
    async with running_worker(app, concurrency=1):
        await job.enqueue()
        await all_ended(db, 1)
        assert left(db) == 1
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
        db.execute(ended, (NAME,))
        await eventually(lambda: left(db) == 0, what="the end of the connection")
        handle = await job.enqueue()
        await all_ended(db, 2)
        assert job_status(db, handle.id) == "succeeded"
        assert attempt_outcomes(db, handle.id) == [(1, "failed"), (2, "succeeded")]
        await job.enqueue(close=True)
        await all_ended(db, 3)


def test_a_worker_does_not_load_django():
    script = "import sys, posthouse.worker.worker; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
