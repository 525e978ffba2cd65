"""Jobs over HTTP."""

from __future__ import annotations

from support.databases import define


async def test_a_job_is_enqueued_seen_listed_and_canceled(api):
    define(api.database, "sync")
    acme = await api.client_for("tenant-admin", "acme")
    made = await acme.post("/api/v1/jobs", json={"definition_key": "sync", "payload": {"a": 1}})
    assert made.status_code == 201, made.text
    job = made.json()
    assert (job["status"], job["tenant_id"], job["definition_key"]) == ("queued", "acme", "sync")
    shown = (await acme.get(f"/api/v1/jobs/{job['id']}")).json()
    assert shown["payload"] == {"a": 1}
    assert [item["id"] for item in (await acme.get("/api/v1/jobs")).json()["items"]] == [job["id"]]
    assert (await acme.post(f"/api/v1/jobs/{job['id']}/cancel")).json()["status"] == "canceled"
    assert (await acme.post(f"/api/v1/jobs/{job['id']}/retry")).json()["status"] == "queued"


async def test_another_tenant_finds_nothing(api):
    define(api.database, "sync")
    acme, other = await api.client_for("tenant-admin", "acme"), await api.client_for("tenant-admin", "other")
    job = (await acme.post("/api/v1/jobs", json={"definition_key": "sync"})).json()
    assert (await other.get("/api/v1/jobs")).json()["items"] == []
    for answer in (
        await other.get(f"/api/v1/jobs/{job['id']}"),
        await other.post(f"/api/v1/jobs/{job['id']}/cancel"),
        await other.post(f"/api/v1/jobs/{job['id']}/retry"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")


async def test_without_a_valid_key_nothing_is_revealed(api):
    for client in (api.client(), api.client("ph_aaaaaaaa_" + "x" * 43), api.client("nonsense")):
        answer = await client.get("/api/v1/jobs")
        assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
        assert answer.headers["content-type"] == "application/problem+json"
    viewer = await api.client_for("tenant-viewer", "acme")
    answer = await viewer.post("/api/v1/jobs", json={"definition_key": "sync"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_the_texts_of_the_api_itself_are_not_redacted(api):
    for path in ("/api/v1/jobs", "/metrics"):
        answer = await api.client().get(path, headers={"Authorization": "Basic x"})
        assert answer.status_code == 401
        assert "`Authorization: Bearer <key>` header" in answer.json()["detail"]
