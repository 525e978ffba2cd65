"""Row-level security holds for the owner of the tables too, and never blinds the engine."""

from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg import sql

import posthouse
from posthouse import testing
from posthouse.cli.run_server import ServerProcess
from posthouse.errors import ConfigurationError
from posthouse.settings import Settings
from posthouse.storage.embedded import attach_server
from posthouse.storage.migrations import check_tenant_isolation
from support.engine import Engine
from support.identity import PASSWORD, as_role, as_tenant, migrated, ordinary_role, owned_database
from support.waiting import eventually
from support.workers import running_worker

DAY = 86400
UNGUARDED = """
select c.relname from pg_class as c
where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p')
  and not (c.relrowsecurity and c.relforcerowsecurity)
"""


async def test_an_ordinary_owner_enqueues_and_works(plain_owner):
    settings = Settings(database_url=plain_owner, heartbeat_seconds=0.2, lease_seconds=20.0)
    seen = []
    async with posthouse.App(settings=settings) as app:

        @app.job()
        async def note(n: int) -> None:
            seen.append(n)

        await note.enqueue(n=0)
        await app.client.enqueue_many([note.request({"n": n}) for n in range(1, 50)])
        with posthouse.SyncClient(settings=settings) as client, psycopg.connect(plain_owner) as own:
            for first in (50, 60):  # twice in one transaction of the caller's
                client.enqueue_many([note.request({"n": first + n}) for n in range(10)], connection=own)
        async with running_worker(app):
            await eventually(lambda: len(seen) == 70)
    assert sorted(seen) == list(range(70))


def test_an_owner_without_superuser_rights_can_retry_rescue_and_clean_up(plain_owner):
    with psycopg.connect(plain_owner, autocommit=True) as connection:
        engine = Engine(connection, plain_owner)
        engine.register()
        assert connection.execute("select row_security_active('posthouse.history')").fetchone() == (True,)
        ended, failed = engine.start(tenant_id="acme"), engine.start(tenant_id="other")
        engine.succeed(ended)
        engine.fail(failed)
        assert engine.reopen(failed.id) == "queued"
        again = engine.claim_one()
        engine.fail(again)
        lost = engine.start(tenant_id="acme", order_key="line", dedupe_key="once")
        assert engine.rescue(dead=[engine.worker]) == {lost.id: "rescue"}
        engine.value("select posthouse.create_tenant('acme', '{}', 'tester')")
        engine.value("select posthouse.change_tenant('acme', '{\"retention_days\": 60}', 'tester')")
        engine.advance(40 * DAY)
        engine.value("select posthouse.create_partitions()")
        engine.run_retention(default=30)
        assert engine.status(ended.id) == "succeeded"
        assert engine.status(failed.id) is None
        assert engine.rows(UNGUARDED) == []
        engine.advance(70 * DAY)
        engine.run_retention(default=30)
        assert engine.status(ended.id) is None
        engine.advance(0)


def test_the_engines_policies_cost_its_statements_nothing(plain_owner):
    """They are `true`, and gone from every plan; though this role is also a member of posthouse_tenant."""
    with psycopg.connect(plain_owner, autocommit=True) as connection:
        tables = connection.execute(
            "select relname from pg_class "
            "where relnamespace = 'posthouse'::regnamespace and relkind in ('r', 'p')"
        ).fetchall()
        for (name,) in tables:
            plan = "\n".join(row[0] for row in connection.execute(f"explain select * from posthouse.{name}"))
            assert "Filter" not in plan, plan
            assert "SubPlan" not in plan, plan
        with as_tenant(connection, "acme"):
            [*plan] = connection.execute("explain select * from posthouse.ready")
        assert "posthouse.tenant" in str(plan)  # or the look above would prove nothing


def test_a_copy_that_retention_makes_is_guarded_from_the_start(plain_owner):
    with psycopg.connect(plain_owner, autocommit=True) as connection:
        engine = Engine(connection, plain_owner)
        engine.value("select posthouse.create_partitions()")
        engine.succeed(engine.start(tenant_id="acme"))
        [(partition,)] = engine.rows("select tableoid::regclass::text from posthouse.history")
        name = partition.removeprefix("posthouse.")
        assert engine.value("select posthouse.copy_retained_rows(%s, '{acme}')", name) == 1
        assert engine.value("select count(*) from pg_class where relname = %s", f"{name}_kept") == 1
        assert engine.rows(UNGUARDED) == []
        assert engine.value("select posthouse.swap_partition(%s, '{acme}')", name)
        assert engine.rows(UNGUARDED) == []


def test_a_program_needs_one_grant(server, database):
    with (
        ordinary_role(server, member_of=["posthouse_engine"]) as shop,
        psycopg.connect(as_role(database, shop), autocommit=True) as connection,
    ):
        engine = Engine(connection, "")
        job = engine.start(tenant_id="acme")
        assert engine.succeed(job) == []
        assert engine.status(job.id) == "succeeded"
        with as_tenant(connection, "acme"):
            assert engine.status(job.id) == "succeeded"
        with as_tenant(connection, "other"):
            assert engine.status(job.id) is None
        check_tenant_isolation(connection)


async def test_without_the_right_to_roles_the_queue_works_and_the_server_says_what_to_do(
    server, shared_database
):
    with ordinary_role(server) as role, owned_database(server, role) as url:
        [warning] = migrated(url)
        assert warning.startswith("tenants are not kept apart")
        async with posthouse.App(settings=Settings(database_url=url)) as app:

            @app.job()
            async def greet() -> str:
                return "hello"

            await greet.enqueue()
            assert await testing.drain(app) == {"succeeded": 1}
        with (
            socket.create_server(("127.0.0.1", 0)) as listening,
            pytest.raises(ConfigurationError) as refused,
        ):
            await ServerProcess(Settings(database_url=url)).start(listening)
        assert f'grant posthouse_engine to "{role}"' in str(refused.value)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("grant posthouse_engine to {}").format(sql.Identifier(role)))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("select posthouse.enable_tenant_isolation()")
            check_tenant_isolation(connection)


def test_a_migrator_that_may_create_roles_makes_them(tmp_path):
    with attach_server(tmp_path / "postgres", settings={"fsync": "off"}) as embedded:
        with psycopg.connect(embedded.admin_url_for(), autocommit=True) as admin:
            admin.execute(f"create role maker login createrole password '{PASSWORD}'")
        with (
            owned_database(embedded.admin_url_for(), "maker") as url,
            psycopg.connect(url, autocommit=True) as connection,
        ):
            assert migrated(url) == []
            check_tenant_isolation(connection)
            engine = Engine(connection, url)
            job = engine.start(tenant_id="acme")
            with as_tenant(connection, "other"):
                assert engine.status(job.id) is None
            assert engine.succeed(job) == []
