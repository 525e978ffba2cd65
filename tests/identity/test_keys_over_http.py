"""Keys and tenants over HTTP: who may make which, and what is left on record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from support.identity import problem

KEYS, TENANTS = "/api/v1/admin/keys", "/api/v1/admin/tenants"


def test_a_key_is_shown_once_and_opens_what_its_role_may(api_server):
    admin = api_server.client_for("super-admin")
    made = admin.post(KEYS, json={"name": "ci", "role": "tenant-viewer", "tenant_id": "shown"})
    assert made.status_code == 201, made.text
    key = made.json()
    assert api_server.client(key["key"]).get("/api/v1/jobs").json()["items"] == []
    [listed] = admin.get(KEYS, params={"tenant": "shown"}).json()
    assert (listed["prefix"], listed["role"], listed["tenant_id"]) == (
        key["prefix"],
        "tenant-viewer",
        "shown",
    )
    assert listed["last_used_at"] is not None
    assert key["key"] not in admin.get(KEYS).text
    with api_server.connect() as db:
        stored = db.execute("select to_jsonb(k)::text from posthouse.keys as k").fetchall()
        noted = db.execute("select to_jsonb(a)::text from posthouse.audit as a").fetchall()
    secret = key["key"].split("_", 2)[2]  # which may have more of them
    assert secret not in str([stored, noted])


def test_a_tenant_admin_manages_keys_of_its_own_tenant_only(api_server):
    own, other = (
        api_server.client_for("tenant-admin", "mine"),
        api_server.client_for("tenant-admin", "theirs"),
    )
    made = own.post(KEYS, json={"name": "robot", "role": "event-emitter"})
    assert (made.status_code, made.json()["tenant_id"]) == (201, "mine")
    assert {key["tenant_id"] for key in own.get(KEYS).json()} == {"mine"}
    assert made.json()["prefix"] not in other.get(KEYS).text
    assert problem(other.delete(f"{KEYS}/{made.json()['prefix']}")) == (404, "key_not_found")
    assert problem(own.get(KEYS, params={"tenant": "theirs"})) == (403, "forbidden")
    answer = own.post(KEYS, json={"name": "x", "role": "tenant-viewer", "tenant_id": "theirs"})
    assert problem(answer) == (403, "forbidden")
    assert own.delete(f"{KEYS}/{made.json()['prefix']}").status_code == 204


@pytest.mark.parametrize("role", ["super-admin", "worker"])
def test_a_caller_cannot_create_a_key_with_more_rights_than_its_own(api_server, role):
    admin = api_server.client_for("tenant-admin", "modest")
    assert problem(admin.post(KEYS, json={"name": "up", "role": role})) == (403, "forbidden")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"role": "emperor"}, "invalid_request"),
        ({"role": "tenant-viewer", "tenant_id": None}, "invalid_key"),
        ({"role": "super-admin", "tenant_id": "acme"}, "invalid_key"),
        ({"queues": ["mail"]}, "invalid_key"),
        ({"tenant_id": "posthouse"}, "invalid_key"),
        ({"name": " "}, "invalid_key"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "invalid_key"),
        ({"expires_at": "0204-11-22T11:11:13.2-19:37"}, "invalid_key"),
        ({"hash": "mine"}, "invalid_request"),
    ],
    ids=str,
)
def test_a_key_that_makes_no_sense_is_refused(api_server, changes, code):
    wanted = {"name": "n", "role": "tenant-viewer", "tenant_id": "acme", **changes}
    assert problem(api_server.client_for("super-admin").post(KEYS, json=wanted)) == (422, code)


def test_an_expired_key_is_no_key(api_server):
    soon = datetime.now(UTC) + timedelta(hours=1)
    client = api_server.client(api_server.key("tenant-viewer", "brief", expires_at=soon))
    with api_server.connect() as db:
        db.execute("update posthouse.keys set expires_at = posthouse.now() where tenant_id = 'brief'")
    assert problem(client.get("/api/v1/jobs")) == (401, "not_authenticated")


def test_the_use_of_a_key_is_noted_once_a_minute_and_not_with_each_request(api_server):
    client = api_server.client_for("tenant-viewer", "busy")
    with api_server.connect() as db:
        versions = [
            (client.get("/api/v1/jobs").status_code, *db.execute(
                "select xmin::text, last_used_at is not null from posthouse.keys where tenant_id = 'busy'"
            ).fetchone())
            for _ in range(3)
        ]  # fmt: skip
        assert versions == [(200, versions[0][1], True)] * 3
        db.execute(
            "update posthouse.keys set last_used_at = posthouse.now() - interval '50 s' "
            "where tenant_id = 'busy'"
        )
        touch = (
            "select posthouse.record_key_use(prefix), last_used_at from posthouse.keys "
            "where tenant_id = 'busy'"
        )
        assert db.execute(touch).fetchone() == db.execute(touch).fetchone()


def test_a_tenant_is_created_changed_and_forgotten_with_its_keys(api_server):
    admin = api_server.client_for("super-admin")
    made = admin.post(TENANTS, json={"id": "new", "label": "New Ltd", "retention_days": 90})
    assert made.status_code == 201, made.text
    assert (made.json()["weight"], made.json()["retention_days"]) == (1, 90)
    assert problem(admin.post(TENANTS, json={"id": "new"})) == (409, "tenant_exists")
    changed = admin.patch(f"{TENANTS}/new", json={"weight": 3, "retention_days": None}).json()
    assert (changed["label"], changed["weight"], changed["retention_days"]) == ("New Ltd", 3, None)
    tenant = api_server.client_for("tenant-admin", "new")
    job = tenant.post("/api/v1/jobs", json={"definition_key": "sync"}).json()
    assert problem(admin.delete(f"{TENANTS}/new")) == (409, "tenant_active")
    tenant.post(f"/api/v1/jobs/{job['id']}/cancel")
    assert admin.delete(f"{TENANTS}/new").status_code == 204
    assert problem(admin.get(f"{TENANTS}/new")) == (404, "tenant_not_found")
    assert problem(admin.patch(f"{TENANTS}/new", json={"weight": 1})) == (404, "tenant_not_found")
    with api_server.connect() as db:
        actions = db.execute(
            "select action from posthouse.audit where tenant_id = 'new' order by id"
        ).fetchall()
        left = db.execute(
            "select count(*) from posthouse.keys where tenant_id = 'new' and revoked_at is null"
        )
        assert left.fetchone() == (0,)
    assert {"tenant.create", "tenant.weight", "tenant.delete", "key.revoke"} <= {
        action for (action,) in actions
    }


@pytest.mark.parametrize("name", ["", "two words", "a\x00b", "x" * 101, "posthouse", "a/b"])
def test_a_tenant_is_named_by_a_word(api_server, name):
    answer = api_server.client_for("super-admin").post(TENANTS, json={"id": name})
    assert answer.status_code == 422, answer.text
