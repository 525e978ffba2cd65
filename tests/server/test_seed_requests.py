"""The HTTP examples of the requirement documents, posted as they are written there."""

from __future__ import annotations

import json
from uuid import uuid4

import psycopg

from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support.workers import claim_as_other_worker

DEFINITIONS = "/api/v1/admin/jobs/definitions"
TRIGGERS = "/api/v1/jobs/triggers"
JOBS = "/api/v1/jobs"

DEFINITION = {
    "key": "sync-dropbox",
    "description": "Sync provider updates for tenant",
    "arg_schema": {
        "type": "object",
        "properties": {
            "provider_id": {"type": "string", "format": "uuid"},
            "path_prefix": {"type": "string"},
        },
        "required": ["provider_id"],
        "additionalProperties": False,
    },
    "timeout_seconds": 3600,
    "max_attempts": 3,
}
ON_EVENT = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "sync-dropbox",
    "payload_template": {
        "provider_id": "{{event.provider_id}}",
        "path_prefix": "{{event.folder_path}}",
    },
    "dedupe_window_seconds": 120,
}
NIGHTLY = {
    "label": "Nightly provider sync",
    "trigger_type": "schedule",
    "cron_expr": "0 2 * * *",
    "timezone": "America/New_York",
    "definition_key": "sync-dropbox",
    "payload_template": {"path_prefix": "/"},
}
MANUAL = {
    "definition_key": "recompute-trained-tags",
    "payload": {"model": "siglip"},
    "priority": 100,
    "scheduled_for": "2026-02-16T10:30:00Z",
    "dedupe_key": "tenant:bcg:training:daily",
}


async def posted(client, path, body, status=201):
    answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_definition_without_a_command_is_created_and_its_jobs_wait_for_a_handler(api, db):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    made = await posted(boss, DEFINITIONS, DEFINITION)
    assert {name: made[name] for name in DEFINITION} == DEFINITION
    assert (made["is_active"], made["command"], made["runner"]) == (True, None, "handler")
    job = await posted(acme, JOBS, {"definition_key": made["key"], "payload": {"provider_id": str(uuid4())}})
    why = (await acme.get(f"{JOBS}/{job['id']}/why")).json()
    assert why["reason"] == "no_worker"
    db.execute("select posthouse.announce(%s)", (json.dumps([{"key": "sync-dropbox", "queue": "sync"}]),))
    shown = (await boss.get(f"{DEFINITIONS}/sync-dropbox")).json()
    assert (shown["origin"], shown["queue"], shown["arg_schema"]) == (
        "code",
        "sync",
        DEFINITION["arg_schema"],
    )


async def test_a_command_can_be_set_later(api, db):
    boss = await api.client_for("super-admin")
    made = await posted(boss, DEFINITIONS, DEFINITION)
    changes = {"command": {"argv": ["sync-dropbox", "--provider", "{payload.provider_id}"]}}
    changed = (await boss.patch(f"{DEFINITIONS}/{made['id']}", json=changes)).json()
    assert (changed["runner"], changed["command"]["argv"][0]) == ("command", "sync-dropbox")


async def test_a_duplicate_definition_is_a_conflict(api):
    boss = await api.client_for("super-admin")
    await posted(boss, DEFINITIONS, DEFINITION)
    problem = await posted(boss, DEFINITIONS, DEFINITION, 409)
    assert problem["code"] == "definition_exists"
    assert "'sync-dropbox' already exists" in problem["detail"]


async def test_an_event_trigger_enqueues_the_job_of_its_event(api, db):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    definition = await posted(boss, DEFINITIONS, DEFINITION)
    trigger = await posted(acme, TRIGGERS, ON_EVENT)
    assert {name: trigger[name] for name in ON_EVENT} == ON_EVENT
    assert (trigger["is_enabled"], trigger["definition_id"]) == (True, definition["id"])
    assert {"enabled", "type"}.isdisjoint(trigger)
    provider = str(uuid4())
    context = {"provider_id": provider, "folder_path": "/photos"}
    event = {"event_name": "provider.folder.updated", "context": context}
    await posted(acme, "/api/v1/events", event, 202)
    keeper = Keeper(api.database, Settings(database_url=api.database))
    await keeper.run_once()
    await keeper.stop()
    (job,) = (await acme.get(JOBS, params={"source": "event"})).json()["items"]
    assert (job["definition_key"], job["definition_id"]) == ("sync-dropbox", definition["id"])
    assert "kind" not in job
    shown = (await acme.get(f"{JOBS}/{job['id']}")).json()
    assert shown["payload"] == {"provider_id": provider, "path_prefix": "/photos"}
    off = (await acme.patch(f"{TRIGGERS}/{trigger['id']}", json={"is_enabled": False})).json()
    assert off["is_enabled"] is False


async def test_a_schedule_whose_payload_lacks_a_required_field_is_rejected_by_its_name(api):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    await posted(boss, DEFINITIONS, DEFINITION)
    problem = await posted(acme, TRIGGERS, NIGHTLY, 422)
    assert "provider_id" in problem["detail"]
    provider = {"provider_id": str(uuid4()), "path_prefix": "/"}
    complete = await posted(acme, TRIGGERS, {**NIGHTLY, "payload_template": provider})
    assert (complete["trigger_type"], complete["dedupe_window_seconds"]) == ("schedule", 300)
    (listed,) = (await acme.get(TRIGGERS, params={"trigger_type": "schedule"})).json()["items"]
    assert listed["description"] == "at 02:00 every day, America/New_York"


async def test_a_manual_job_is_enqueued_and_answers_with_its_fields(api):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    await posted(boss, DEFINITIONS, {"key": "recompute-trained-tags"})
    job = await posted(acme, JOBS, MANUAL)
    assert job.keys() >= {"id", "tenant_id", "status", "definition_key", "queued_at"}
    found = (job["tenant_id"], job["status"], job["definition_key"])
    assert found == ("acme", "queued", "recompute-trained-tags")
    again = await posted(acme, JOBS, MANUAL)
    assert (again["id"], again["outcome"]) == (job["id"], "existing")
    shown = (await acme.get(f"{JOBS}/{job['id']}")).json()
    for name in ("payload", "priority", "scheduled_for", "dedupe_key"):
        assert shown[name] == MANUAL[name]


async def test_a_definition_is_found_by_its_id_and_by_its_key(api):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    made = await posted(boss, DEFINITIONS, DEFINITION)
    by_id, by_key = f"{DEFINITIONS}/{made['id']}", f"{DEFINITIONS}/sync-dropbox"
    changed = await boss.patch(by_id, json={"is_active": False, "max_attempts": 5})
    assert (changed.json()["is_active"], changed.json()["max_attempts"]) == (False, 5)
    assert changed.json()["overridden"] == [
        "arg_schema", "description", "is_active", "max_attempts", "timeout_seconds",
    ]  # fmt: skip
    assert (await boss.get(by_key)).json() == (await boss.get(by_id)).json()
    assert (await acme.get(f"/api/v1/definitions/{made['id']}")).json()["is_active"] is False
    cleared = await boss.patch(by_id, json={"clear": ["is_active"]})
    assert cleared.json()["is_active"] is True
    assert (await boss.get(f"{DEFINITIONS}/{uuid4()}")).status_code == 404
    assert (await boss.delete(by_id)).status_code == 204


async def test_attempts_have_the_fields_of_the_document(api, db):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    await posted(boss, DEFINITIONS, {"key": "recompute-trained-tags"})
    job = await posted(acme, JOBS, MANUAL)
    job_id, _ = claim_as_other_worker(db, kinds=["recompute-trained-tags"])
    assert str(job_id) == job["id"]
    (running,) = (await acme.get(f"{JOBS}/{job['id']}/attempts")).json()
    assert (running["attempt_no"], running["status"], running["error_text"]) == (1, "running", None)
    assert running.keys() >= {
        "worker_id", "pid", "started_at", "finished_at", "exit_code", "stdout_tail", "stderr_tail",
    }  # fmt: skip
    assert {"attempt", "outcome", "error_message"}.isdisjoint(running)


async def test_workers_register_and_send_heartbeats_under_workers(api):
    boss, acme = await api.client_for("super-admin"), await api.client_for("tenant-admin", "acme")
    new = {"worker_name": "embedder-1", "worker_version": "1.4.0", "queues": ["embeddings"]}
    made = await posted(boss, "/api/v1/workers/register", new)
    assert (made["worker_name"], made["worker_version"]) == ("embedder-1", "1.4.0")
    worker = api.client(made["api_key"])
    beat = await posted(worker, f"/api/v1/workers/{made['worker_id']}/heartbeat", {"status": "idle"}, 200)
    assert beat == {"worker_id": made["worker_id"], "status": "ok", "drain": False}
    assert (await worker.post(f"/api/v1/workers/{made['worker_id']}/heartbeat")).status_code == 200
    (seen,) = (await boss.get("/api/v1/workers")).json()
    assert (seen["id"], seen["version"], seen["status"]) == (made["worker_id"], "1.4.0", "online")
    (of_tenant,) = (await acme.get("/api/v1/workers")).json()
    assert of_tenant["version"] == ""
    other = api.client((await posted(boss, "/api/v1/workers/register", new))["api_key"])
    assert (await other.post(f"/api/v1/workers/{made['worker_id']}/heartbeat")).status_code == 403
    assert (await acme.post("/api/v1/workers/register", json=new)).status_code == 403
    assert (await boss.post(f"/api/v1/workers/{uuid4()}/heartbeat")).status_code == 403


async def test_the_key_of_a_worker_registers_it_again_under_its_id(api):
    boss = await api.client_for("super-admin")
    made = await posted(boss, "/api/v1/workers/register", {"worker_name": "embedder-2"})
    worker = api.client(made["api_key"])
    again = {"worker_name": "embedder-2", "worker_id": made["worker_id"], "worker_version": "1.5.0"}
    response = await posted(worker, "/api/v1/workers/register", again)
    assert (response["worker_id"], response["api_key"]) == (made["worker_id"], None)
    (seen,) = (await boss.get("/api/v1/workers")).json()
    assert seen["version"] == "1.5.0"


def test_the_clients_of_the_database_keep_their_names(database):
    with psycopg.connect(database, autocommit=True) as connection:
        columns = connection.execute("select * from posthouse.jobs limit 0").description
    assert {"kind", "worker_id"} <= {column.name for column in columns}
