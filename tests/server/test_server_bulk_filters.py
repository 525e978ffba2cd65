"""Retry and cancel everything that a line finds: with a look before, at a rate, and a time to undo it."""

from __future__ import annotations

from uuid import UUID

import pytest
from filterkit import house_on

from posthouse.core.ids import new_id
from workshop import take


@pytest.fixture(scope="module")
def house(server):
    with house_on(server) as house:
        yield house


@pytest.fixture
def town(house):
    return house.tenant()


def change(client, action, line, **options):
    answer = client.post("/jobs/bulk", json={"action": action, "q": line, "rate": 10_000, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def statuses(town):
    items = town.client.get("/jobs", params={"limit": 200}).json()["items"]
    return {UUID(item["id"]): item["status"] for item in items}


def code(answer):
    return answer.status_code, answer.json()["code"]


def test_a_look_counts_and_shows_the_first(house, town):
    jobs = [house.ended(town.name, payload={"n": number}) for number in range(7)]
    house.ended(town.name, "canceled")
    house.ended(town.name, "succeeded")
    told = change(town.client, "retry", "kind:work", dry_run=True)
    assert (told["matched"], told["exact"], told["bulk_id"]) == (7, True, None)
    assert [item["id"] for item in told["sample"]] == sorted(map(str, jobs), reverse=True)[:5]
    assert change(town.client, "retry", "kind:work status:canceled", dry_run=True)["matched"] == 1
    assert change(town.client, "retry", "payload.n:3", dry_run=True)["matched"] == 1
    assert town.client.get("/jobs/bulk").json()["items"] == []


def test_a_retry_runs_again_what_fits_and_nothing_else(house, town):
    again = [house.ended(town.name, error="TimeoutError: x") for _ in range(3)]
    other = house.ended(town.name, error="ValueError: x")
    told = change(town.client, "retry", "error:timeout")
    assert told["matched"] == 3
    house.keep(2)
    bulk = town.client.get(f"/jobs/bulk/{told['bulk_id']}").json()
    assert (bulk["action"], bulk["state"], bulk["total"], bulk["retried"]) == ("retry", "done", 3, 3)
    assert bulk["chosen"] == {"q": "error:timeout", "tenant": town.name}
    assert statuses(town) == {**dict.fromkeys(again, "queued"), other: "failed"}
    retries = town.client.get("/jobs/bulk", params={"action": "retry"}).json()["items"]
    assert [item["id"] for item in retries] == [told["bulk_id"]]


def test_a_cancel_ends_queued_jobs_and_tells_the_workers_of_running_ones(house, town):
    waiting = house.queued(town.name, "slow", queue="mine", scheduled_for="2099-01-01T00:00:00Z")
    running = house.queued(town.name, "slow", queue="there")
    take(house.db, queue="there", kinds=["slow"])
    ready = [house.queued(town.name, "slow", queue="mine") for _ in range(5)]
    kept = house.queued(town.name, "other", queue="mine")
    told = change(town.client, "cancel", "kind:slow")
    assert told["matched"] == 7
    house.keep(2)
    bulk = town.client.get(f"/jobs/bulk/{told['bulk_id']}").json()
    assert (bulk["action"], bulk["state"], bulk["canceled"], bulk["skipped"]) == ("cancel", "done", 7, 0)
    assert statuses(town) == {
        **dict.fromkeys([waiting, *ready], "canceled"), running: "running", kept: "queued",
    }  # fmt: skip
    asked = house.db.execute("select cancel_requested_at from posthouse.running where id = %s", (running,))
    assert asked.fetchone()[0] is not None
    audited = house.db.execute(
        "select target from posthouse.audit where action = 'job.cancel' and tenant_id = %s", (town.name,)
    ).fetchall()
    assert sorted(audited) == sorted((str(job),) for job in (waiting, running, *ready))
    assert town.client.get("/jobs/bulk", params={"action": "retry"}).json()["items"] == []


def test_until_it_starts_it_can_be_undone(house, town):
    job = house.queued(town.name)
    told = change(town.client, "cancel", "kind:work", start_in_seconds=600)
    house.keep(2)
    bulk = town.client.get(f"/jobs/bulk/{told['bulk_id']}").json()
    assert (bulk["state"], bulk["total"], bulk["starts_at"]) == ("gathering", None, told["starts_at"])
    assert town.client.post(f"/jobs/bulk/{told['bulk_id']}/stop").json() == {"changed": True}
    assert town.client.post(f"/jobs/bulk/{told['bulk_id']}/stop").json() == {"changed": False}
    house.db.execute("update posthouse.bulk_changes set starts_at = posthouse.now() - interval '1 hour'")
    house.keep(2)
    assert statuses(town) == {job: "queued"}


def test_it_is_about_the_jobs_that_were_there_when_it_was_asked_for(house, town):
    early = house.queued(town.name)
    failed = house.ended(town.name)
    change(town.client, "cancel", "kind:work", start_in_seconds=600)
    change(town.client, "retry", "kind:work", start_in_seconds=600)
    late = house.queued(town.name)
    late_failed = house.ended(town.name, age=0, ended=0)
    house.db.execute("update posthouse.bulk_changes set starts_at = created_at, looked_at = created_at")
    house.keep(3)
    assert statuses(town) == {early: "canceled", failed: "queued", late: "queued", late_failed: "failed"}


def test_a_rate_is_kept_and_a_limit(house, town):
    for _ in range(4):
        house.queued(town.name)
    told = change(town.client, "cancel", "kind:work", rate=0.001)
    house.keep(3)
    assert sorted(statuses(town).values()) == ["canceled", "queued", "queued", "queued"]
    assert town.client.post(f"/jobs/bulk/{told['bulk_id']}/stop").json() == {"changed": True}
    change(town.client, "cancel", "kind:work", limit=2)
    house.keep(3)
    assert sorted(statuses(town).values()) == ["canceled", "canceled", "canceled", "queued"]


def test_a_tenant_cannot_change_the_jobs_of_another(house, town):
    other = house.tenant()
    theirs = [house.queued(other.name), house.ended(other.name)]
    for line in (f"tenant:{other.name}", f"id:{theirs[0]}", "-kind:x", f"tenant:{other.name} -tenant:x"):
        for action in ("retry", "cancel"):
            assert change(town.client, action, line, dry_run=True)["matched"] == 0
            change(town.client, action, line)
    told = change(other.client, "cancel", "kind:work", start_in_seconds=600)
    assert code(town.client.get(f"/jobs/bulk/{told['bulk_id']}")) == (404, "bulk_change_not_found")
    assert code(town.client.post(f"/jobs/bulk/{told['bulk_id']}/stop")) == (404, "bulk_change_not_found")
    house.keep(9)
    assert statuses(other) == {theirs[0]: "queued", theirs[1]: "failed"}


def test_a_tenant_that_asks_the_database_itself_gets_no_further(house, town):
    other = house.tenant()
    theirs = house.queued(other.name)
    wanted = '{"statuses": ["queued"], "conditions": [], "tenants": ["%s"], "lowest": "%s", "below": "%s"}'
    bounds = (other.name, UUID(int=0), UUID(int=2**128 - 1))
    with house.db.transaction():
        house.db.execute(
            "select set_config('role', 'posthouse_tenant', true), set_config('posthouse.tenant', %s, true)",
            (town.name,),
        )
        house.db.execute(
            "select posthouse.start_bulk_change(%s, %s, 1000, 1, 1, 'x', 'cancel', %s)",
            (new_id(), f'{{"tenant": "{other.name}"}}', wanted % bounds),
        )
        found = house.db.execute(
            "select cardinality(ids) from posthouse.search_jobs(%s, null, 10, 1000, 5)", (wanted % bounds,)
        ).fetchone()
    assert found == (0,)
    house.keep(5)
    assert statuses(other) == {theirs: "queued"}


def test_an_unreadable_bulk_filter_does_not_block_other_changes(house, town):
    wanted = '{"conditions": [{"field": "?"}], "statuses": ["queued"]}'
    house.db.execute(
        "select posthouse.start_bulk_change(%s, '{}', 1, 1, 1, 'x', 'cancel', %s)",
        (broken := new_id(), wanted),
    )
    job = house.queued(town.name)
    change(town.client, "cancel", "kind:work")
    house.keep(4)
    state = house.db.execute(
        "select state, reason from posthouse.bulk_changes where id = %s", (broken,)
    ).fetchone()
    assert state[0] == "halted"
    assert "search for its jobs failed" in state[1]
    assert statuses(town) == {job: "canceled"}


def test_an_operator_changes_jobs_of_all_tenants_or_of_one(house, town):
    other = house.tenant()
    mine, theirs = house.queued(town.name, "wide"), house.queued(other.name, "wide")
    boss = house.as_("super-admin")
    change(boss, "cancel", f"kind:wide tenant:{town.name}")
    house.keep(3)
    assert (statuses(town), statuses(other)) == ({mine: "canceled"}, {theirs: "queued"})
    change(boss, "cancel", "kind:wide")
    house.keep(3)
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
def test_what_cannot_be_done_is_refused(town, body, problem):
    assert code(town.client.post("/jobs/bulk", json=body)) == (422, problem)


def test_a_viewer_looks_and_changes_nothing(house, town):
    viewer = house.as_("tenant-viewer", town.name)
    assert viewer.get("/jobs/bulk").status_code == 200
    assert code(viewer.post("/jobs/bulk", json={"action": "cancel", "q": "kind:a"})) == (403, "forbidden")


def test_a_repeated_request_starts_one_change(town):
    body = {"action": "cancel", "q": "kind:work"}
    first, again = (
        town.client.post("/jobs/bulk", json=body, headers={"Idempotency-Key": "one"}).json() for _ in range(2)
    )
    assert first["bulk_id"] == again["bulk_id"]
    assert len(town.client.get("/jobs/bulk").json()["items"]) == 1
