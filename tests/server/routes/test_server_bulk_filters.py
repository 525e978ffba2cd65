"""Retry and cancel everything that a line finds: with a look before, at a rate, and a time to undo it."""

from __future__ import annotations

from uuid import UUID

import pytest

from posthouse.core.ids import new_id
from support.filters import filter_server
from support.workers import claim_as_other_worker


@pytest.fixture(scope="module")
def api_server(server):
    with filter_server(server) as api_server:
        yield api_server


@pytest.fixture
def tenant(api_server):
    return api_server.tenant()


def change(client, action, line, **options):
    answer = client.post("/jobs/bulk", json={"action": action, "q": line, "rate": 10_000, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def statuses(tenant):
    items = tenant.client.get("/jobs", params={"limit": 200}).json()["items"]
    return {UUID(item["id"]): item["status"] for item in items}


def code(answer):
    return answer.status_code, answer.json()["code"]


def test_a_look_counts_and_shows_the_first(api_server, tenant):
    jobs = [api_server.ended(tenant.name, payload={"n": number}) for number in range(7)]
    api_server.ended(tenant.name, "canceled")
    api_server.ended(tenant.name, "succeeded")
    started = change(tenant.client, "retry", "kind:work", dry_run=True)
    assert (started["matched"], started["exact"], started["bulk_id"]) == (7, True, None)
    assert [item["id"] for item in started["sample"]] == sorted(map(str, jobs), reverse=True)[:5]
    assert change(tenant.client, "retry", "kind:work status:canceled", dry_run=True)["matched"] == 1
    assert change(tenant.client, "retry", "payload.n:3", dry_run=True)["matched"] == 1
    assert tenant.client.get("/jobs/bulk").json()["items"] == []


def test_a_retry_runs_again_what_fits_and_nothing_else(api_server, tenant):
    again = [api_server.ended(tenant.name, error="TimeoutError: x") for _ in range(3)]
    other = api_server.ended(tenant.name, error="ValueError: x")
    started = change(tenant.client, "retry", "error:timeout")
    assert started["matched"] == 3
    api_server.keep(2)
    bulk = tenant.client.get(f"/jobs/bulk/{started['bulk_id']}").json()
    assert (bulk["action"], bulk["state"], bulk["total"], bulk["retried"]) == ("retry", "done", 3, 3)
    assert bulk["criteria"] == {"q": "error:timeout", "tenant": tenant.name}
    assert statuses(tenant) == {**dict.fromkeys(again, "queued"), other: "failed"}
    retries = tenant.client.get("/jobs/bulk", params={"action": "retry"}).json()["items"]
    assert [item["id"] for item in retries] == [started["bulk_id"]]


def test_a_cancel_ends_queued_jobs_and_tells_the_workers_of_running_ones(api_server, tenant):
    waiting = api_server.queued(tenant.name, "slow", queue="mine", scheduled_for="2099-01-01T00:00:00Z")
    running = api_server.queued(tenant.name, "slow", queue="there")
    claim_as_other_worker(api_server.db, queue="there", kinds=["slow"])
    ready = [api_server.queued(tenant.name, "slow", queue="mine") for _ in range(5)]
    kept = api_server.queued(tenant.name, "other", queue="mine")
    started = change(tenant.client, "cancel", "kind:slow")
    assert started["matched"] == 7
    api_server.keep(2)
    bulk = tenant.client.get(f"/jobs/bulk/{started['bulk_id']}").json()
    assert (bulk["action"], bulk["state"], bulk["canceled"], bulk["skipped"]) == ("cancel", "done", 7, 0)
    assert statuses(tenant) == {
        **dict.fromkeys([waiting, *ready], "canceled"), running: "running", kept: "queued",
    }  # fmt: skip
    asked = api_server.db.execute(
        "select cancel_requested_at from posthouse.running where id = %s", (running,)
    )
    assert asked.fetchone()[0] is not None
    audited = api_server.db.execute(
        "select target from posthouse.audit where action = 'job.cancel' and tenant_id = %s", (tenant.name,)
    ).fetchall()
    assert sorted(audited) == sorted((str(job),) for job in (waiting, running, *ready))
    assert tenant.client.get("/jobs/bulk", params={"action": "retry"}).json()["items"] == []


def test_until_it_starts_it_can_be_undone(api_server, tenant):
    job = api_server.queued(tenant.name)
    started = change(tenant.client, "cancel", "kind:work", start_in_seconds=600)
    api_server.keep(2)
    bulk = tenant.client.get(f"/jobs/bulk/{started['bulk_id']}").json()
    assert (bulk["state"], bulk["total"], bulk["starts_at"]) == ("gathering", None, started["starts_at"])
    assert tenant.client.post(f"/jobs/bulk/{started['bulk_id']}/stop").json() == {"changed": True}
    assert tenant.client.post(f"/jobs/bulk/{started['bulk_id']}/stop").json() == {"changed": False}
    api_server.db.execute("update posthouse.bulk_changes set starts_at = posthouse.now() - interval '1 hour'")
    api_server.keep(2)
    assert statuses(tenant) == {job: "queued"}


def test_it_is_about_the_jobs_that_were_there_when_it_was_asked_for(api_server, tenant):
    early = api_server.queued(tenant.name)
    failed = api_server.ended(tenant.name)
    change(tenant.client, "cancel", "kind:work", start_in_seconds=600)
    change(tenant.client, "retry", "kind:work", start_in_seconds=600)
    late = api_server.queued(tenant.name)
    late_failed = api_server.ended(tenant.name, age=0, ended=0)
    api_server.db.execute(
        "update posthouse.bulk_changes set starts_at = created_at, last_step_at = created_at"
    )
    api_server.keep(3)
    assert statuses(tenant) == {early: "canceled", failed: "queued", late: "queued", late_failed: "failed"}


def test_a_rate_is_kept_and_a_limit(api_server, tenant):
    for _ in range(4):
        api_server.queued(tenant.name)
    started = change(tenant.client, "cancel", "kind:work", rate=0.001)
    api_server.keep(3)
    assert sorted(statuses(tenant).values()) == ["canceled", "queued", "queued", "queued"]
    assert tenant.client.post(f"/jobs/bulk/{started['bulk_id']}/stop").json() == {"changed": True}
    change(tenant.client, "cancel", "kind:work", limit=2)
    api_server.keep(3)
    assert sorted(statuses(tenant).values()) == ["canceled", "canceled", "canceled", "queued"]


def test_a_tenant_cannot_change_the_jobs_of_another(api_server, tenant):
    other = api_server.tenant()
    theirs = [api_server.queued(other.name), api_server.ended(other.name)]
    for line in (f"tenant:{other.name}", f"id:{theirs[0]}", "-kind:x", f"tenant:{other.name} -tenant:x"):
        for action in ("retry", "cancel"):
            assert change(tenant.client, action, line, dry_run=True)["matched"] == 0
            change(tenant.client, action, line)
    started = change(other.client, "cancel", "kind:work", start_in_seconds=600)
    assert code(tenant.client.get(f"/jobs/bulk/{started['bulk_id']}")) == (404, "bulk_change_not_found")
    assert code(tenant.client.post(f"/jobs/bulk/{started['bulk_id']}/stop")) == (404, "bulk_change_not_found")
    api_server.keep(9)
    assert statuses(other) == {theirs[0]: "queued", theirs[1]: "failed"}


def test_a_tenant_that_asks_the_database_itself_gets_no_further(api_server, tenant):
    other = api_server.tenant()
    theirs = api_server.queued(other.name)
    wanted = '{"statuses": ["queued"], "conditions": [], "tenants": ["%s"], "lowest": "%s", "below": "%s"}'
    bounds = (other.name, UUID(int=0), UUID(int=2**128 - 1))
    with api_server.db.transaction():
        api_server.db.execute(
            "select set_config('role', 'posthouse_tenant', true), set_config('posthouse.tenant', %s, true)",
            (tenant.name,),
        )
        api_server.db.execute(
            "select posthouse.start_bulk_change(%s, %s, 1000, 1, 1, 'x', 'cancel', %s)",
            (new_id(), f'{{"tenant": "{other.name}"}}', wanted % bounds),
        )
        found = api_server.db.execute(
            "select cardinality(ids) from posthouse.search_jobs(%s, null, 10, 1000, 5)", (wanted % bounds,)
        ).fetchone()
    assert found == (0,)
    api_server.keep(5)
    assert statuses(other) == {theirs: "queued"}


def test_an_unreadable_bulk_filter_does_not_block_other_changes(api_server, tenant):
    wanted = '{"conditions": [{"field": "?"}], "statuses": ["queued"]}'
    api_server.db.execute(
        "select posthouse.start_bulk_change(%s, '{}', 1, 1, 1, 'x', 'cancel', %s)",
        (broken := new_id(), wanted),
    )
    job = api_server.queued(tenant.name)
    change(tenant.client, "cancel", "kind:work")
    api_server.keep(4)
    state = api_server.db.execute(
        "select state, reason from posthouse.bulk_changes where id = %s", (broken,)
    ).fetchone()
    assert state[0] == "halted"
    assert "search for its jobs failed" in state[1]
    assert statuses(tenant) == {job: "canceled"}


def test_an_operator_changes_jobs_of_all_tenants_or_of_one(api_server, tenant):
    other = api_server.tenant()
    mine, theirs = api_server.queued(tenant.name, "wide"), api_server.queued(other.name, "wide")
    boss = api_server.client_for("super-admin")
    change(boss, "cancel", f"kind:wide tenant:{tenant.name}")
    api_server.keep(3)
    assert (statuses(tenant), statuses(other)) == ({mine: "canceled"}, {theirs: "queued"})
    change(boss, "cancel", "kind:wide")
    api_server.keep(3)
    assert statuses(other) == {theirs: "canceled"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"action": "retry", "q": "status:running"}, "invalid_request"),
        ({"action": "cancel", "q": "status:failed"}, "invalid_request"),
        ({"action": "cancel", "q": " "}, "invalid_request"),
        ({"action": "cancel", "q": "kind:a", "filter": {"definition_key": "a"}}, "invalid_request"),
        ({"action": "cancel"}, "invalid_request"),
        ({"action": "cancel", "filter": {"definition_key": "a"}, "start_in_seconds": 5}, "invalid_request"),
        ({"action": "cancel", "q": "stat:failed"}, "invalid_filter"),
    ],
)
def test_what_cannot_be_done_is_refused(tenant, body, problem):
    assert code(tenant.client.post("/jobs/bulk", json=body)) == (422, problem)


def test_a_viewer_looks_and_changes_nothing(api_server, tenant):
    viewer = api_server.client_for("tenant-viewer", tenant.name)
    assert viewer.get("/jobs/bulk").status_code == 200
    assert code(viewer.post("/jobs/bulk", json={"action": "cancel", "q": "kind:a"})) == (403, "forbidden")


def test_a_repeated_request_starts_one_change(tenant):
    body = {"action": "cancel", "q": "kind:work"}
    first, again = (
        tenant.client.post("/jobs/bulk", json=body, headers={"Idempotency-Key": "one"}).json()
        for _ in range(2)
    )
    assert first["bulk_id"] == again["bulk_id"]
    assert len(tenant.client.get("/jobs/bulk").json()["items"]) == 1
