"""What the console shows first, over HTTP: the overview, the doctor, the settings, failures over time."""

from __future__ import annotations

import asyncio

import httpx
import psycopg
import pytest

from posthouse.settings import Settings
from support.engine import Engine
from support.server import ServerThread, key_for


@pytest.fixture
def engine(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield Engine(connection, database)


async def got(client, path, **query):
    answer = await client.get(f"/api/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def sample(engine, tenant, **counts):
    """What a keeper would have counted some minutes ago."""
    names = ", ".join(counts)
    engine.connection.execute(
        f"insert into posthouse.samples (minute, tenant_id, queue, kind, {names}) values "
        f"(posthouse.minute_of(posthouse.now()) - interval '10 min', %s, 'default', 'task', "
        f"{', '.join(['%s'] * len(counts))})",
        [tenant, *counts.values()],
    )


async def test_the_overview_has_the_backlog_the_workers_and_the_last_hour(api, engine):
    engine.register(concurrency=4)
    engine.start(tenant_id="acme")
    engine.enqueue_many(*({"kind": "task", "tenant_id": "acme"} for _ in range(3)))
    engine.enqueue("mail", queue="mail", tenant_id="acme", delay=3600)
    sample(engine, "acme", arrivals=9, ended=8, succeeded=6, dead_letter=1, failures=2)
    found = await got(await api.client_for("tenant-viewer", "acme"), "/overview")
    backlog = {name: found[name] for name in ("ready", "scheduled", "blocked", "running")}
    assert backlog == {"ready": 3, "scheduled": 1, "blocked": 0, "running": 1}
    assert found["oldest_ready_seconds"] >= 0
    assert found["workers"] == {"workers": 1, "slots": 4, "busy": 1}
    assert found["last_hour"]["failure_share"] == 0.25
    assert (found["last_day"]["arrivals"], found["last_day"]["dead_letter"]) == (9, 1)
    queues = {queue["name"]: queue for queue in found["queues"]}
    assert (queues["default"]["ready"], queues["default"]["running"], queues["default"]["workers"]) == (
        3,
        1,
        1,
    )
    assert queues["default"]["last_hour"]["succeeded"] == 6
    assert (queues["mail"]["scheduled"], queues["mail"]["last_hour"]["arrivals"]) == (1, 0)


async def test_the_overview_of_a_tenant_knows_nothing_of_others(api, engine):
    engine.register()
    engine.start(tenant_id="other")
    engine.enqueue(tenant_id="other", queue="secret")
    sample(engine, "other", arrivals=9, failures=2)
    found = await got(await api.client_for("tenant-admin", "acme"), "/overview")
    assert [found[name] for name in ("ready", "running", "oldest_ready_seconds")] == [0, 0, None]
    assert found["workers"]["busy"] == 0
    assert found["last_hour"] == found["last_day"]
    assert found["last_hour"]["arrivals"] == 0
    assert "secret" not in {queue["name"] for queue in found["queues"]}
    boss = await api.client_for("super-admin")
    assert (await got(boss, "/overview"))["ready"] == 1
    assert (await got(boss, "/overview", tenant="acme"))["ready"] == 0


async def test_the_doctor_tells_operators_what_is_wrong_and_what_to_do(api, engine):
    engine.enqueue(queue="unserved")
    found = await got(await api.client_for("super-admin"), "/admin/doctor")
    assert found["status"] in {"warning", "critical"}
    assert found["healthy"] is (found["status"] != "critical")
    assert sum(found["counts"].values()) == len(found["findings"])
    keeper = next(finding for finding in found["findings"] if finding["check"] == "keeper")
    assert keeper["severity"] != "ok"
    assert keeper["advice"]
    for role in ("tenant-admin", "tenant-viewer"):
        assert (await (await api.client_for(role, "acme")).get("/api/v1/admin/doctor")).status_code == 403


async def test_many_who_ask_the_doctor_share_an_answer(api, engine):
    boss = await api.client_for("super-admin")
    first = await got(boss, "/admin/doctor")
    engine.register()
    assert await got(boss, "/admin/doctor") == first


def test_the_settings_in_effect_say_where_they_came_from_and_hide_secrets(database, monkeypatch, tmp_path):
    secret = "s" * 40
    monkeypatch.chdir(tmp_path)
    (tmp_path / "posthouse.toml").write_text("lease_seconds = 45\n")
    monkeypatch.setenv("POSTHOUSE_CONCURRENCY", "7")
    settings = Settings(database_url=database, concurrency=7, lease_seconds=45.0, admin_secret=secret)
    key = asyncio.run(key_for(database, "tenant-admin", "acme"))
    with ServerThread(settings) as running:
        answer, denied = (
            httpx.get(
                f"{running.url}/api/v1/admin/settings", headers={"Authorization": f"Bearer {credential}"}
            )
            for credential in (secret, key)
        )
    assert denied.status_code == 403
    assert secret not in answer.text
    assert database not in answer.text
    found = {item["name"]: item for item in answer.json()}
    assert found["admin_secret"]["value"] == "********"
    assert found["admin_secret"]["secret"]
    sources = ["concurrency", "lease_seconds", "heartbeat_seconds", "admin_secret"]
    assert [found[name]["source"] for name in sources] == ["environment", "file", "default", "flag"]
    assert found["concurrency"]["variable"] == "POSTHOUSE_CONCURRENCY"
    assert found["concurrency"]["help"]


async def test_failures_have_counts_of_each_hour_of_a_day(api, engine):
    job = engine.start(tenant_id="acme")
    engine.settle(job, "fail", "failed", error={"type": "ValueError", "message": "x", "fingerprint": "f00d"})
    engine.connection.execute(
        "insert into posthouse.failure_counts (tenant_id, kind, fingerprint, at, failures) values "
        "('acme', 'task', 'f00d', posthouse.failure_step(posthouse.now() - interval '3 hours'), 4), "
        "('acme', 'task', 'f00d', posthouse.failure_step(posthouse.now() - interval '30 hours'), 8), "
        "('other', 'task', 'f00d', posthouse.failure_step(posthouse.now() - interval '3 hours'), 16)"
    )
    [group] = (await got(await api.client_for("tenant-viewer", "acme"), "/failures"))["items"]
    assert len(group["last_day"]) == 24
    assert [(hour, count) for hour, count in enumerate(group["last_day"]) if count] == [(20, 4), (23, 1)]


async def test_a_session_says_what_its_owner_may_do(api):
    viewer = await got(await api.client_for("tenant-viewer", "acme"), "/session")
    assert (viewer["role"], viewer["tenant_id"], viewer["csrf_token"]) == ("tenant-viewer", "acme", None)
    assert "jobs:read" in viewer["permissions"]
    assert "jobs:write" not in viewer["permissions"]


@pytest.mark.parametrize(("offline_seconds", "workers"), [(0.0, 0), (600.0, 1)])
async def test_every_route_counts_workers_by_the_setting_offline_seconds(
    engine, database, offline_seconds, workers
):
    """The last heartbeat was 400 seconds ago; the worker itself announced 300."""
    engine.value('select posthouse.announce(\'[{"key": "task"}]\')')
    engine.register(offline_after=300)
    job = engine.enqueue("task")
    engine.advance(400)
    settings = Settings(database_url=database, offline_seconds=offline_seconds)
    headers = {"Authorization": f"Bearer {await key_for(database, 'super-admin')}"}
    with ServerThread(settings) as running:
        async with httpx.AsyncClient(base_url=running.url, headers=headers) as client:
            [task] = [
                item
                for item in (await got(client, "/admin/jobs/definitions"))["items"]
                if item["key"] == "task"
            ]
            [queue] = await got(client, "/queues")
            counted = {
                "overview": (await got(client, "/overview"))["workers"]["workers"],
                "operator": (await got(client, "/admin/overview"))["workers"],
                "queue": queue["workers"],
                "definitions": task["workers"],
                "definition": (await got(client, "/admin/jobs/definitions/task"))["workers"],
                "why": len((await got(client, f"/jobs/{job}/why"))["workers"]),
            }
    assert counted == dict.fromkeys(counted, workers)
