"""Trying payloads over HTTP, on definitions that are stored and on those that are not."""

from __future__ import annotations

import json

import psycopg
import pytest

SCHEMA = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string"},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "password": {"type": "string", "minLength": 100},
    },
}
COMMAND = {"argv": ["sync", "--path", "{payload.path}", "--for", "{tenant_id}"]}
CHECK, PREVIEW = "/api/v1/definitions/sync/check", "/api/v1/admin/jobs/definitions/preview"


@pytest.fixture
async def admin_client(api):
    admin_client = await api.client_for("super-admin")
    made = await admin_client.post(
        "/api/v1/admin/jobs/definitions", json={"key": "sync", "arg_schema": SCHEMA, "command": COMMAND}
    )
    assert made.status_code == 201, made.text
    return admin_client


async def tried(client, path, **body):
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_payload_that_fits_and_the_command_that_would_run(admin_client):
    found = await tried(admin_client, CHECK, payload={"path": "/a b"})
    assert (found["valid"], found["is_active"], found["errors"]) == (True, True, [])
    assert found["command"]["argv"] == ["sync", "--path", "/a b", "--for", "default"]


async def test_payload_errors_are_reported_per_field(admin_client):
    found = await tried(
        admin_client, CHECK, payload={"path": 7, "sizes": [1, "x"], "password": "hunter2-hunter2"}
    )
    assert not found["valid"]
    assert found["command"] is None
    errors = {error["path"]: error["message"] for error in found["errors"]}
    assert set(errors) == {"path", "sizes[1]", "password"}
    assert errors["path"] == '7 is not of type "string"'
    assert "hunter2" not in json.dumps(found)
    [missing] = (await tried(admin_client, CHECK))["errors"]
    assert missing == {"path": "", "message": '"path" is a required property'}


async def test_formats_are_asserted_by_checks_enqueues_and_triggers(api, admin_client):
    schema = {"type": "object", "properties": {"provider_id": {"type": "string", "format": "uuid"}}}
    command = {"argv": ["true", "{payload.provider_id}"]}
    body = {"key": "provider.sync", "arg_schema": schema, "command": command}
    assert (await admin_client.post("/api/v1/admin/jobs/definitions", json=body)).status_code == 201
    admin = await api.client_for("tenant-admin", "acme")
    bad = {"provider_id": "not-a-uuid"}
    checked = await tried(admin, "/api/v1/definitions/provider.sync/check", payload=bad)
    assert checked["errors"] == [{"path": "provider_id", "message": '"not-a-uuid" is not a "uuid"'}]
    new = {"definition_key": "provider.sync", "payload": bad}
    answer = await admin.post("/api/v1/jobs", json=new)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_payload")
    assert 'payload.provider_id: "not-a-uuid" is not a "uuid"' in answer.json()["detail"]
    trigger = {"definition_key": "provider.sync", "cron_expr": "* * * * *", "payload_template": bad}
    shown = await tried(admin, "/api/v1/jobs/triggers/preview", trigger=trigger)
    assert shown["payload_errors"] == checked["errors"]


async def test_tenants_try_payloads_but_commands_are_the_operators(api, admin_client):
    for role in ("tenant-viewer", "tenant-admin"):
        client = await api.client_for(role, "acme")
        found = await tried(client, CHECK, payload={"path": "/"})
        assert (found["valid"], found["command"]) == (True, None)
        assert not (await tried(client, CHECK, payload={}))["valid"]
        assert (await client.post(PREVIEW, json={})).status_code == 403
    assert (await (await api.client_for("event-emitter", "acme")).post(CHECK, json={})).status_code == 403


async def test_there_must_be_such_a_kind_and_a_payload_is_an_object(admin_client):
    for key in ("nothing", "posthouse.webhook"):
        answer = await admin_client.post(f"/api/v1/definitions/{key}/check", json={"payload": {}})
        assert (answer.status_code, answer.json()["code"]) == (404, "definition_not_found")
    for body in ({"payload": [1]}, {"paylaod": {}}):
        assert (await admin_client.post(CHECK, json=body)).status_code == 422


async def test_a_definition_is_tried_before_it_is_stored(admin_client, database):
    found = await tried(
        admin_client, PREVIEW, command=COMMAND, arg_schema=SCHEMA, payload={"path": "/"}, tenant_id="acme"
    )
    assert (found["valid"], found["definition_errors"]) == (True, [])
    assert found["command"]["argv"][-1] == "acme"
    wrong = await tried(admin_client, PREVIEW, command=COMMAND, arg_schema=SCHEMA, payload={})
    assert [error["message"] for error in wrong["errors"]] == ['"path" is a required property']
    with psycopg.connect(database) as db:
        assert db.execute("select key from posthouse.definitions where key like 's%'").fetchall() == [
            ("sync",)
        ]


async def test_definition_errors_are_reported_per_field(admin_client):
    for fields, path in (
        ({"command": {"argv": []}}, "command"),
        ({"command": {"argv": ["sync", "{payload.path"]}}, "command"),
        ({"command": COMMAND, "arg_schema": {"type": "nothing"}}, "arg_schema"),
        ({"command": COMMAND, "retry": {"ladder": ["x"]}}, "retry"),
    ):
        found = await tried(admin_client, PREVIEW, **fields, payload={})
        assert not found["valid"], fields
        assert [error["path"] for error in found["definition_errors"]] == [path]


async def test_fields_that_are_left_out_are_those_of_the_stored_definition(admin_client):
    found = await tried(
        admin_client, PREVIEW, key="sync", arg_schema={"type": "object"}, payload={"path": "/"}
    )
    assert found["command"]["argv"][:3] == ["sync", "--path", "/"]
    inactive = await tried(admin_client, PREVIEW, key="sync", is_active=False, payload={"path": "/"})
    assert not inactive["is_active"]
    assert (await tried(admin_client, CHECK, payload={"path": "/"}))["is_active"]
