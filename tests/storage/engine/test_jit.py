"""JIT compilation never delays the queue, on a server where it is on.

A disabled plan node counts with a huge cost, and Postgres compiles plans above a certain cost: seconds of CPU
for a statement that takes a millisecond without it.
"""

from pathlib import Path

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from posthouse.storage.connections import HandlerPools, ReconnectingConnection, connect_async, connect_sync
from support.engine import Engine
from support.pgbouncer import PGBOUNCER, running_pgbouncer
from support.server import RunningServer
from support.workers import running_worker

COMPILED = "select count(*) from pg_class as a cross join pg_class as b"
DISABLES_NODES = """
select oid::regprocedure::text from pg_proc
where pronamespace = 'posthouse'::regnamespace
  and exists (select from unnest(proconfig) as setting where setting like 'enable\\_%')
  and not 'jit=off' = any (proconfig)
"""


@pytest.fixture
def url(stock):
    """A database on a server with default settings."""
    with testing.database(stock) as url:
        with psycopg.connect(url) as connection:
            if not connection.execute("select pg_jit_available()").fetchone()[0]:
                pytest.skip("this Postgres was installed without JIT")
        yield url


@pytest.fixture
def eager(url):
    """Its server compiles every plan that reads a table, in sessions where JIT is on."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"alter database {name} set jit_above_cost = 1")
    with psycopg.connect(url) as control:
        control.execute(COMPILED)
        assert _has_compiled(control.info.backend_pid), "the check sees a compiled plan"
    return url


def test_functions_that_disable_plan_nodes_disable_jit(db):
    assert db.execute(DISABLES_NODES).fetchall() == []


async def test_no_connection_of_ours_uses_jit(eager):
    pools = HandlerPools(eager)
    reconnecting = ReconnectingConnection(eager, "test")
    with connect_sync(eager, "test") as plain, pools.sync_pool().connection() as pooled:
        assert plain.execute("show jit").fetchone() == pooled.execute("show jit").fetchone() == ("off",)
    async with await connect_async(eager, "test") as plain, (await pools.async_pool()).connection() as pooled:
        for connection in (plain, pooled, await reconnecting.connection()):
            assert await (await connection.execute("show jit")).fetchone() == ("off",)
    await reconnecting.close()
    await pools.close()


async def test_no_part_of_an_installation_compiles_a_plan(eager):
    settings = Settings(database_url=eager, heartbeat_seconds=0.2)
    async with posthouse.App(settings=settings) as app, RunningServer(settings):

        @app.job()
        async def work(job: posthouse.Job) -> None:
            async with job.commit() as connection:
                await connection.execute("select count(*) from posthouse.jobs")

        async with running_worker(app, keeper=False):
            keeper = Keeper(eager, settings)
            await keeper.run_once()
            await (await work.enqueue()).wait("60s")
            work.enqueue_sync()
            names = _backends(eager)
            assert {"posthouse claims", "posthouse keeper", "posthouse client"} <= set(names.values())
            assert [name for pid, name in names.items() if _has_compiled(pid)] == []
            await keeper.stop()


def test_a_caller_s_own_connection_compiles_nothing_of_ours(url):
    with psycopg.connect(url, autocommit=True) as connection:
        engine = Engine(connection, url)
        assert engine.value("show jit") == "on"
        for _ in range(7):  # after five executions the plan of a function is a generic one
            engine.value("select posthouse.enqueue('task', '{}')")
            engine.succeed(engine.claim_one())
            engine.fail(engine.start())
            engine.value("select posthouse.detect_alerts('{job_max_retries_exceeded,worker_lost}', 1)")
        assert not _has_compiled(connection.info.backend_pid)
        connection.execute("set jit_above_cost = 0")
        connection.execute(COMPILED)
        assert _has_compiled(connection.info.backend_pid), "the check sees a compiled plan"


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
async def test_nothing_is_compiled_behind_a_pooler_and_its_sessions_are_left_alone(stock, url):
    with running_pgbouncer(stock) as pooler:
        settings = Settings(database_url=pooler.url_for(url), heartbeat_seconds=0.2, poll_seconds=0.1)
        async with posthouse.App(settings=settings) as app:

            @app.job()
            async def work() -> str:
                return "done"

            async with running_worker(app):
                for _ in range(10):
                    assert await (await work.enqueue()).wait("60s") == "done"
            assert [pid for pid in _backends(url) if _has_compiled(pid)] == []
            async with await connect_async(settings.database_url, "test") as connection:
                assert await (await connection.execute("show jit")).fetchone() == ("on",)


def _has_compiled(pid):
    """A backend loads the compiler with the first plan that it compiles."""
    return "llvmjit" in Path(f"/proc/{pid}/maps").read_text()


def _backends(url):
    with psycopg.connect(url, application_name="looks") as connection:
        return dict(
            connection.execute(
                "select pid, application_name from pg_stat_activity where datname = current_database() "
                "and application_name like 'posthouse %'"
            ).fetchall()
        )
