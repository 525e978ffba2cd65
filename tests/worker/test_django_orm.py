"""Handlers that use Django's ORM: no connection is left behind, and broken ones are replaced."""

import subprocess
import sys
from uuid import uuid4

import django
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from psycopg.conninfo import conninfo_to_dict

import posthouse
from workshop import attempts, eventually, status, working

NAME = "django orm test"
LEFT = "select count(*) from pg_stat_activity where application_name = %s"


@pytest.fixture
def orm(database):
    """Runs a query as the ORM does, on a connection to the test's database."""
    if not django_settings.configured:
        django_settings.configure(DATABASES={})
        django.setup()
    from django.db import connections  # noqa: PLC0415 - needs the settings

    parts = conninfo_to_dict(database)
    wanted = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
        "OPTIONS": {"application_name": NAME},
    }
    alias = f"orm-{uuid4()}"
    connections.settings[alias] = connections.configure_settings({"default": wanted})["default"]

    class Orm:
        def keep_connections(self):
            connections.settings[alias]["CONN_MAX_AGE"] = None

        def query(self, *, close=False):
            with connections[alias].cursor() as cursor:
                cursor.execute("select pg_sleep(0.01)")
            if close:
                connections[alias].close()

    yield Orm()
    connections.settings.pop(alias)


def left(db):
    return db.execute(LEFT, (NAME,)).fetchone()[0]


async def all_ended(db, count):
    ask = "select count(*) from posthouse.history"
    await eventually(lambda: db.execute(ask).fetchone()[0] == count, what="the end of the jobs")


async def test_handlers_in_threads_leave_no_connections(app, db, orm):
    @app.job()
    def count(number: int) -> None:
        orm.query()

    async with working(app, concurrency=20):
        await app.client.enqueue_many([count.request({"number": number}) for number in range(100)])
        await all_ended(db, 100)
        assert left(db) == 0


async def test_async_handlers_leave_no_connections(app, db, orm):
    @app.job()
    async def count(number: int) -> None:
        await sync_to_async(orm.query)()

    async with working(app, concurrency=20):
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
    async with working(app, concurrency=1):
        await job.enqueue()
        await all_ended(db, 1)
        assert left(db) == 1
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
        db.execute(ended, (NAME,))
        await eventually(lambda: left(db) == 0, what="the end of the connection")
        handle = await job.enqueue()
        await all_ended(db, 2)
        assert status(db, handle.id) == "succeeded"
        assert attempts(db, handle.id) == [(1, "failed"), (2, "succeeded")]
        await job.enqueue(close=True)
        await all_ended(db, 3)


def test_a_worker_does_not_load_django():
    script = "import sys, posthouse.worker.worker; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
