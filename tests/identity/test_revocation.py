"""A key that is revoked opens nothing any more, whether the server remembers keys or not."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from posthouse import testing
from posthouse.identity import Principal, Role, prefix_of
from posthouse.identity.authenticator import KeyCache
from posthouse.settings import Settings
from support.databases import define
from support.identity import problem
from support.pgbouncer import PGBOUNCER, running_pgbouncer
from support.server import ServerThread
from support.waiting import eventually, eventually_sync

HEARING = (
    "from pg_stat_activity where datname = current_database() "
    "and application_name = 'posthouse server keys' and query like 'listen %'"
)
LISTENING = f"select count(*) {HEARING}"
BACKENDS = f"select pg_terminate_backend(pid) {HEARING}"


def revoke(api_server, key):
    with api_server.connect() as db:
        assert db.execute("select posthouse.revoke_key(%s)", (prefix_of(key),)).fetchone() == (True,)


def test_a_server_that_listens_forgets_a_key_when_it_is_revoked(api_server):
    with api_server.connect() as db:
        eventually_sync(lambda: db.execute(LISTENING).fetchone() == (1,), what="the server listens")
    key = api_server.key("tenant-viewer", "acme")
    client = api_server.client(key)
    assert [client.get("/api/v1/jobs").status_code for _ in range(3)] == [200] * 3
    revoke(api_server, key)
    eventually_sync(lambda: client.get("/api/v1/jobs").status_code == 401)


def test_over_http_a_key_is_gone_with_the_answer(api_server):
    key = api_server.key("tenant-viewer", "acme")
    client = api_server.client(key)
    assert client.get("/api/v1/jobs").status_code == 200
    assert (
        api_server.client_for("super-admin").delete(f"/api/v1/admin/keys/{prefix_of(key)}").status_code == 204
    )
    assert problem(client.get("/api/v1/jobs")) == (401, "not_authenticated")


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
def test_behind_a_pooler_keys_are_looked_up_and_tenants_kept_apart(server):
    with (
        testing.database(server) as url,
        running_pgbouncer(server) as pooler,
        ServerThread(Settings(database_url=pooler.url_for(url)), database=url) as api_server,
    ):
        define(url, "sync")
        key = api_server.key("tenant-viewer", "acme")
        one, other, admin = (
            api_server.client(key),
            api_server.client_for("tenant-admin", "other"),
            api_server.client_for("super-admin"),
        )
        job = other.post("/api/v1/jobs", json={"definition_key": "sync"}).json()
        for _ in range(20):  # through a handful of sessions, each after each
            assert one.get("/api/v1/jobs").json()["items"] == []
            assert one.get(f"/api/v1/jobs/{job['id']}").status_code == 404
            assert admin.get(f"/api/v1/jobs/{job['id']}").status_code == 200
        revoke(api_server, key)
        assert problem(one.get("/api/v1/jobs")) == (401, "not_authenticated")


async def test_what_is_remembered_goes_when_the_connection_does(database):
    memory = KeyCache(database)
    listening = asyncio.create_task(memory.run())
    anna = Principal(name="key:a", role=Role.TENANT_VIEWER, tenant="acme", key="a")
    try:
        await eventually(lambda: memory.is_listening)
        memory.put(b"a", anna, generation=memory.generation, seconds=None)
        assert memory.get(b"a") == anna
        before = memory.generation
        with psycopg.connect(database, autocommit=True) as db:
            db.execute(BACKENDS)
            await eventually(lambda: memory.get(b"a") is None)
            memory.put(b"a", anna, generation=before, seconds=None)  # looked up before the cut
            assert memory.get(b"a") is None
            await eventually(lambda: memory.is_listening)
            memory.put(b"a", anna, generation=memory.generation, seconds=None)
            db.execute("select pg_notify('posthouse_keys', 'a')")
            await eventually(lambda: memory.get(b"a") is None)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def test_a_key_is_remembered_no_longer_than_it_is_good():
    now = [100.0]
    memory = KeyCache("", clock=lambda: now[0])
    memory._listener.is_listening = True
    anna = Principal(name="key:a", role=Role.TENANT_VIEWER, tenant="acme", key="a")
    memory.put(b"a", anna, generation=0, seconds=3)
    now[0] = 102.9
    assert memory.get(b"a") == anna
    now[0] = 103.1
    assert memory.get(b"a") is None
