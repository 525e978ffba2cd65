"""Triggers over HTTP: tried before they are stored, set off by hand, and what came of them."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import psycopg
import pytest

from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support.engine import Engine

SCHEMA = {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}
PREVIEW = "/api/v1/jobs/triggers/preview"


@pytest.fixture
def engine(database):
    with psycopg.connect(database, autocommit=True) as connection:
        engine = Engine(connection, database)
        kinds = [{"key": "sync", "schema": SCHEMA}, {"key": "plain"}]
        engine.value("select posthouse.announce(%s)", json.dumps(kinds))
        yield engine


@pytest.fixture
async def acme(api, engine):
    return await api.client_for("tenant-admin", "acme")


async def tried(client, trigger, **more):
    answer = await client.post(PREVIEW, json={"trigger": trigger, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stored(client, **fields):
    answer = await client.post("/api/v1/jobs/triggers", json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def on_folders(client, **fields):
    return await stored(
        client, trigger_type="event", event_name="folder.*", definition_key="sync",
        payload_template={"path": "{{event.path}}"}, **fields,
    )  # fmt: skip


async def nightly(client, **fields):
    return await stored(
        client, trigger_type="schedule", cron_expr="30 2 * * MON-FRI", timezone="Europe/Paris",
        definition_key="plain", payload_template={"day": "{{schedule.date}}"}, **fields,
    )  # fmt: skip


async def fire(client, trigger, **body):
    return await client.post(f"/api/v1/jobs/triggers/{trigger['id']}/fire", json=body)


async def outcomes(client, trigger, **query):
    answer = await client.get(f"/api/v1/jobs/triggers/{trigger['id']}/outcomes", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def keep(database):
    keeper = Keeper(database, Settings(database_url=database))
    await keeper.run_once()
    await keeper.stop()


def paths(faults):
    return [fault["path"] for fault in faults]


# Tried.


async def test_a_schedule_in_words_with_its_next_runs_and_what_clocks_do_to_them(acme):
    trigger = {"trigger_type": "schedule", "cron_expr": "30 2 * * *", "timezone": "Europe/Paris",
               "definition_key": "plain", "payload_template": {"day": "{{schedule.date}}"}}  # fmt: skip
    found = await tried(acme, trigger, runs=3, after="2027-03-27T00:00:00Z")
    assert (found["valid"], found["errors"], found["matched"]) == (True, [], None)
    assert (found["description"], found["timezone"]) == ("at 02:30 every day, Europe/Paris", "Europe/Paris")
    assert found["payload"] == {"day": "2027-03-27"}
    assert [(run["at"], run["local"], run["note"]) for run in found["runs"]] == [
        ("2027-03-27T01:30:00Z", "2027-03-27T02:30:00+01:00", ""),
        ("2027-03-28T01:00:00Z", "2027-03-28T03:00:00+02:00", "for 02:30, which clocks skip"),
        ("2027-03-29T00:30:00Z", "2027-03-29T02:30:00+02:00", ""),
    ]


async def test_trigger_errors_are_reported_per_field(acme):
    trigger = {"trigger_type": "schedule", "cron_expr": "0 2 * * *", "definition_key": "plain"}
    for changes, path, text in (
        ({"cron_expr": "61 * * * *"}, "cron_expr", "minute"),
        ({"timezone": "Europe/Pari"}, "timezone", "did you mean Europe/Paris?"),
        ({"definition_key": "nothing"}, "definition_key", "does not exist"),
        ({"definition_key": "posthouse.webhook"}, "definition_key", "does not exist"),
        ({"payload_template": {"x": "{{event.x}}"}}, "payload_template", "must start with one of"),
        ({"event_name": "x"}, "event_name", "is not allowed"),
    ):
        found = await tried(acme, {**trigger, **changes})
        assert not found["valid"], changes
        [fault] = found["errors"]
        assert fault["path"] == path
        assert text in fault["message"]


async def test_a_trigger_may_be_tried_while_it_is_being_written(acme):
    assert paths((await tried(acme, {}))["errors"]) == ["cron_expr", "definition_key"]
    assert paths((await tried(acme, {"trigger_type": "event"}))["errors"]) == ["event_name", "definition_key"]
    found = await tried(acme, {"cron_expr": "0 * * * *"})
    assert (found["description"], len(found["runs"]), paths(found["errors"])) == (
        "every hour, UTC", 5, ["definition_key"],
    )  # fmt: skip


FOLDERS = {
    "trigger_type": "event",
    "event_name": "folder.*",
    "definition_key": "sync",
    "payload_template": {"path": "{{event.path}}"},
}


async def test_a_template_is_filled_with_a_sample_event(acme, engine):
    event = {"event_name": "folder.updated", "context": {"path": "/photos"}}
    found = await tried(acme, FOLDERS, event=event)
    assert (found["valid"], found["matched"], found["payload"]) == (True, True, {"path": "/photos"})
    assert found["description"] == "on events like folder.*"
    number = await tried(acme, FOLDERS, event={**event, "context": {"path": 7}})
    assert (number["valid"], number["payload"]) == (False, {"path": 7})
    assert number["payload_errors"] == [{"path": "path", "message": '7 is not of type "string"'}]
    missing = await tried(acme, FOLDERS, event={**event, "context": {"pat": "/"}})
    assert missing["payload"] is None
    assert missing["payload_errors"][0]["message"] == "event.path is missing: event has pat"
    other = await tried(acme, FOLDERS, event={**event, "event_name": "order.paid"})
    assert (other["valid"], other["matched"], other["payload"]) == (False, False, None)
    assert other["reason"] == "the trigger matches folder.*, but the event is order.paid"
    assert engine.value("select count(*) from posthouse.events") == 0


async def test_without_a_sample_the_latest_event_is_taken_and_secrets_are_masked(acme, engine):
    none = await tried(acme, FOLDERS)
    assert (none["matched"], none["event"]) == (None, None)
    assert "pass a sample event" in none["reason"]
    old = engine.value("""select posthouse.emit('folder.updated', '{"path": "/old"}', 'acme')""")
    engine.value(
        """select posthouse.emit('folder.moved', '{"path": "/new", "password": "hunter2"}', 'acme')"""
    )
    engine.value("""select posthouse.emit('folder.moved', '{"path": "/theirs"}', 'other')""")
    found = await tried(acme, FOLDERS)
    assert (found["payload"], found["event"]["name"]) == ({"path": "/new"}, "folder.moved")
    assert "hunter2" not in json.dumps(found)
    chosen = await tried(acme, FOLDERS, event_id=str(old))
    assert (chosen["payload"], chosen["event"]["id"]) == ({"path": "/old"}, str(old))


async def test_a_change_of_a_stored_trigger_is_tried_with_its_other_fields(acme):
    trigger = await nightly(acme, label="Nightly")
    found = await tried(acme, {"cron_expr": "0 3 * * *"}, trigger_id=trigger["id"])
    assert (found["valid"], found["description"]) == (True, "at 03:00 every day, Europe/Paris")
    assert trigger["description"] == "at 02:30 on Monday to Friday, Europe/Paris"
    listed = (await acme.get("/api/v1/jobs/triggers")).json()["items"]
    assert [item["description"] for item in listed] == [trigger["description"]]


async def test_a_mask_is_never_stored_in_the_place_of_the_secret(acme, database):
    made = await stored(
        acme, trigger_type="schedule", cron_expr="@daily", definition_key="plain",
        payload_template={"path": "/", "login": {"password": "hunter2"}},
    )  # fmt: skip
    shown = (await acme.get(f"/api/v1/jobs/triggers/{made['id']}")).json()["payload_template"]
    assert "hunter2" not in json.dumps(shown)
    url = f"/api/v1/jobs/triggers/{made['id']}"
    refused = await acme.patch(url, json={"payload_template": shown | {"path": "/other"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_trigger")
    assert "payload_template.login.password" in refused.json()["detail"]
    again = await acme.post("/api/v1/jobs/triggers", json={
        "trigger_type": "schedule", "cron_expr": "@daily", "definition_key": "plain",
        "payload_template": shown,
    })  # fmt: skip
    assert again.status_code == 422
    assert (await acme.patch(url, json={"label": "Nightly"})).status_code == 200
    with psycopg.connect(database) as connection:
        kept = connection.execute("select payload_template->'login' from posthouse.triggers").fetchall()
    assert kept == [({"password": "hunter2"},)]


async def test_what_is_no_trial_at_all_is_refused(acme):
    event = {"event_name": "folder.updated"}
    for body in (
        {"trigger": {"cron": "x"}},
        {"trigger": FOLDERS, "event": event, "event_id": str(uuid4())},
        {"trigger": {}, "runs": 1000},
    ):
        answer = await acme.post(PREVIEW, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    for body in ({"trigger": FOLDERS, "event_id": str(uuid4())}, {"trigger_id": str(uuid4())}):
        assert (await acme.post(PREVIEW, json=body)).status_code == 404


# Set off by hand.


async def test_a_schedule_is_fired_now_though_it_is_disabled(acme, engine):
    trigger = await nightly(acme, is_enabled=False)
    answer = await fire(acme, trigger)
    fired = answer.json()
    assert (answer.status_code, fired["outcome"], fired["reason"]) == (201, "fired", None)
    job = (await acme.get(f"/api/v1/jobs/{fired['job_id']}")).json()
    assert (job["definition_key"], job["source"], job["source_ref"]) == ("plain", "schedule", trigger["id"])
    assert set(job["payload"]) == {"day"}
    assert job["job_table"] == "ready"
    [entry] = (await acme.get("/api/v1/admin/audit", params={"action": "trigger.fire"})).json()["items"]
    assert (entry["target"], entry["after"]["job_id"]) == (trigger["id"], fired["job_id"])
    assert job["created_by"] == entry["actor"]
    after = (await acme.get(f"/api/v1/jobs/triggers/{trigger['id']}")).json()
    assert (after["is_enabled"], after["version"]) == (False, trigger["version"])
    assert after["last_fired_at"] is not None


async def test_runs_that_may_not_overlap_do_not_by_hand_either(acme):
    trigger = await nightly(acme, overlap="skip")
    first = (await fire(acme, trigger)).json()
    again = await fire(acme, trigger)
    assert (again.status_code, again.json()["outcome"], again.json()["job_id"]) == (200, "overlap", None)
    assert first["job_id"] in again.json()["reason"]


async def test_an_event_trigger_is_fired_with_an_event_that_no_other_sees(acme, engine, database):
    trigger = await on_folders(acme)
    await on_folders(acme, label="another")
    event = {"event_name": "folder.updated", "context": {"path": "/a"}, "subject": "folder-7"}
    fired = (await fire(acme, trigger, event=event)).json()
    await keep(database)
    jobs = (await acme.get("/api/v1/jobs")).json()["items"]
    assert [job["id"] for job in jobs] == [fired["job_id"]]
    assert (jobs[0]["subject"], jobs[0]["source"]) == ("folder-7", "event")
    [item] = (await outcomes(acme, trigger))["items"]
    assert (item["event_id"], item["event_name"]) == (fired["event_id"], "folder.updated")


async def test_an_event_trigger_is_fired_with_a_stored_event_though_its_window_is_open(
    acme, engine, database
):
    trigger = await on_folders(acme)
    event = engine.value("""select posthouse.emit('folder.updated', '{"path": "/a"}', 'acme')""")
    await keep(database)
    fired = (await fire(acme, trigger, event_id=str(event))).json()
    found = (await outcomes(acme, trigger))["items"]
    assert [item["replay"] for item in found] == [1, 0]
    assert found[0]["job_id"] == fired["job_id"] != found[1]["job_id"]


async def test_what_cannot_be_fired_is_refused_and_leaves_nothing(acme, engine):
    folders, night = await on_folders(acme), await nightly(acme)
    event = {"event_name": "folder.updated", "context": {"path": "/a"}}
    engine.value("select posthouse.emit('order.paid', '{}', 'acme')")
    for trigger, body, code in (
        (folders, {}, "invalid_trigger"),  # which of them?
        (folders, {"event": {"event_name": "order.paid"}}, "invalid_trigger"),
        (folders, {"event": {**event, "context": {}}}, "template_error"),
        (folders, {"event": {**event, "context": {"path": 7}}}, "invalid_payload"),
        (night, {"event": event}, "invalid_trigger"),
    ):
        answer = await fire(acme, trigger, **body)
        assert (answer.status_code, answer.json()["code"]) == (422, code), body
    assert engine.value("select count(*) from posthouse.jobs") == 0
    assert engine.value("select count(*) from posthouse.events") == 1
    assert engine.value("select count(*) from posthouse.schedule_runs") == 0


async def test_a_click_that_is_repeated_fires_once(acme, engine):
    trigger = await nightly(acme)
    path = f"/api/v1/jobs/triggers/{trigger['id']}/fire"
    first, second = await asyncio.gather(*(acme.post(path, headers={"Idempotency-Key": "k"}) for _ in "ab"))
    assert first.json() == second.json()
    assert engine.value("select count(*) from posthouse.jobs") == 1


# What came of it.


async def test_outcomes_have_the_jobs_and_why_there_is_none_page_by_page(acme, engine, database):
    trigger = await on_folders(acme)
    for context in ({"path": "/a"}, {"path": "/a"}, {"nothing": 1}):
        engine.value("select posthouse.emit('folder.updated', %s, 'acme')", json.dumps(context))
    await keep(database)
    found = (await outcomes(acme, trigger))["items"]
    by_outcome = {item["outcome"]: item for item in found}
    assert set(by_outcome) == {"fired", "deduped", "error"}
    assert by_outcome["deduped"]["job_id"] == by_outcome["fired"]["job_id"]
    assert by_outcome["fired"]["job_status"] == "queued"
    assert "event.path is missing" in by_outcome["error"]["reason"]
    assert by_outcome["error"]["job_id"] is None
    first = await outcomes(acme, trigger, limit=2)
    rest = await outcomes(acme, trigger, limit=2, cursor=first["next_cursor"])
    assert first["items"] + rest["items"] == found


async def test_outcomes_of_a_schedule_are_its_runs(acme, engine):
    trigger = await nightly(acme)
    fired = [(await fire(acme, trigger)).json()["job_id"] for _ in range(3)]
    found = await outcomes(acme, trigger, limit=2)
    assert [item["job_id"] for item in found["items"]] == [fired[2], fired[1]]
    rest = await outcomes(acme, trigger, limit=2, cursor=found["next_cursor"])
    assert [item["job_id"] for item in rest["items"]] == [fired[0]]
    assert rest["items"][0]["nominal_at"] is not None


async def test_viewers_look_and_do_not_fire_and_others_see_nothing(api, acme, engine):
    trigger = await on_folders(acme)
    event = engine.value("""select posthouse.emit('folder.updated', '{"path": "/a"}', 'acme')""")
    viewer = await api.client_for("tenant-viewer", "acme")
    assert (await tried(viewer, FOLDERS))["payload"] == {"path": "/a"}
    assert (await fire(viewer, trigger)).status_code == 403
    assert (await outcomes(viewer, trigger))["items"] == []
    stranger = await api.client_for("tenant-admin", "other")
    assert (await fire(stranger, trigger, event_id=str(event))).status_code == 404
    assert (await stranger.get(f"/api/v1/jobs/triggers/{trigger['id']}/outcomes")).status_code == 404
    assert (await tried(stranger, FOLDERS))["event"] is None
    for body in ({"trigger": FOLDERS, "event_id": str(event)}, {"trigger_id": trigger["id"]}):
        assert (await stranger.post(PREVIEW, json=body)).status_code == 404
    own = await on_folders(stranger)
    assert (await fire(stranger, own, event_id=str(event))).json()["code"] == "event_not_found"
    boss = await api.client_for("super-admin")
    assert (await fire(boss, trigger, event_id=str(event))).status_code == 201


def test_a_tenant_that_reaches_the_function_itself_makes_only_what_its_trigger_says(engine):
    trigger = engine.row(
        "select * from posthouse.create_trigger('acme', %s, 'x')",
        json.dumps(
            {"type": "schedule", "cron_expr": "0 2 * * *", "timezone": "UTC", "definition_key": "plain"}
        ),
    ).id
    request = {"kind": "posthouse.webhook", "queue": "posthouse.system", "tenant_id": "other",
               "depends_on": [str(uuid4())], "payload": {"a": 1}}  # fmt: skip
    with engine.connection.transaction():
        engine.connection.execute(
            "select set_config('role', 'posthouse_tenant', true), "
            "set_config('posthouse.tenant', 'acme', true)"
        )
        engine.value(
            "select posthouse.fire_trigger(%s, %s, posthouse.now(), p_tenant => 'other')",
            trigger, json.dumps(request),
        )  # fmt: skip
    job = engine.row("select kind, queue, tenant_id, payload, depends_on from posthouse.jobs")
    assert tuple(job) == ("plain", "default", "acme", {"a": 1}, None)
