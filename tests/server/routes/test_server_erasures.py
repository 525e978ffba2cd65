"""Erasing a subject over HTTP: who may, whose jobs, and what is shown of them afterwards."""

from __future__ import annotations

from uuid import uuid4

from support.databases import define

CANARY = "Zaphod Beeblebrox"


async def _enqueued(client, **options):
    body = {"definition_key": "greet", "subject": "customer-7", "payload": {"name": CANARY}}
    done = await client.post("/api/v1/jobs", json=body, **options)
    assert done.status_code == 201, done.text
    return done.json()["id"]


async def test_a_tenant_erases_its_own_subject_only(api, database):
    define(database, "greet")
    acme, globex = (
        await api.client_for("tenant-admin", "acme"),
        await api.client_for("tenant-admin", "globex"),
    )
    own, other = await _enqueued(acme), await _enqueued(globex)
    done = await acme.post("/api/v1/erasures", json={"subject": "customer-7"})
    assert done.status_code == 202
    erasure = done.json()
    assert (erasure["tenant_id"], erasure["state"], erasure["jobs"]) == ("acme", "erased", 1)
    shown = (await acme.get(f"/api/v1/jobs/{own}")).json()
    assert (shown["status"], shown["payload"]) == ("canceled", {})
    assert shown["erased_at"] is not None
    assert (await globex.get(f"/api/v1/jobs/{other}")).json()["payload"] == {"name": CANARY}
    refused = await acme.post(f"/api/v1/jobs/{own}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "illegal_transition")
    assert "erased" in refused.json()["detail"]

    assert (await acme.get(f"/api/v1/erasures/{erasure['id']}")).json() == erasure
    assert (await acme.get("/api/v1/erasures")).json()["items"] == [erasure]
    assert (await globex.get("/api/v1/erasures")).json()["items"] == []
    missing = await globex.get(f"/api/v1/erasures/{erasure['id']}")
    assert (missing.status_code, missing.json()["code"]) == (404, "erasure_not_found")
    foreign = await globex.post("/api/v1/erasures?tenant=acme", json={"subject": "customer-7"})
    assert foreign.status_code == 403


async def test_only_admins_erase(api):
    for role, tenant in (("tenant-viewer", "acme"), ("event-emitter", "acme"), ("worker", None)):
        client = await api.client_for(role, tenant)
        assert (await client.post("/api/v1/erasures", json={"subject": "x"})).status_code == 403


async def test_a_super_admin_names_the_tenant(api, database):
    define(database, "greet")
    acme, boss = await api.client_for("tenant-admin", "acme"), await api.client_for("super-admin")
    await _enqueued(acme)
    of_default = await boss.post("/api/v1/erasures", json={"subject": "customer-7"})
    assert (of_default.json()["tenant_id"], of_default.json()["jobs"]) == ("default", 0)
    of_acme = await boss.post("/api/v1/erasures?tenant=acme", json={"subject": "customer-7"})
    assert of_acme.json()["jobs"] == 1


async def test_stored_responses_do_not_keep_what_was_erased(api, database, db):
    define(database, "greet")
    acme = await api.client_for("tenant-admin", "acme")
    await _enqueued(acme, headers={"Idempotency-Key": str(uuid4())})
    await acme.post("/api/v1/erasures", json={"subject": "customer-7"})
    assert (
        db.execute(
            "select response_body from posthouse.idempotency_keys where response_body like %s",
            (f"%{CANARY}%",),
        ).fetchall()
        == []
    )


async def test_a_subject_must_be_given(api):
    acme = await api.client_for("tenant-admin", "acme")
    for body in (
        {},
        {"subject": ""},
        {"subject": "a\0b"},
        {"subject": None},
        {"subject": "a", "tenant": "b"},
    ):
        assert (await acme.post("/api/v1/erasures", json=body)).status_code == 422
