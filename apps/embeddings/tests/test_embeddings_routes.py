"""The routes: rules, jobs and search, each tenant by itself."""

from importlib.metadata import version
from uuid import uuid4

import psycopg
import pytest

from embeddings.db import sql
from posthouse import testing

RULES = [
    ("R-1", "Log no secrets", "Passwords and tokens never appear in log files."),
    ("R-2", "Hide credentials", "Do not write secret keys to the logs."),
    ("R-3", "Page by cursor", "Lists are paged by cursor and not by offset."),
    ("R-4", "Feed the cat", "The office cat is fed twice a day."),
]


@pytest.fixture
async def ada(running_app):
    return await running_app.client_for("tenant-admin", "acme")


@pytest.fixture
async def eve(running_app):
    return await running_app.client_for("tenant-admin", "other")


async def add(client, rule_id, title, guidance, **more):
    body = {"rule_id": rule_id, "title": title, "guidance": guidance, **more}
    answer = await client.post("/embeddings/rules", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_rules_are_found_by_what_they_mean(running_app, ada, eve):
    rules = [await add(ada, *rule) for rule in RULES]
    await add(eve, "R-1", "Log no secrets", "Passwords and tokens never appear in log files.")
    assert await testing.drain(running_app.app) == {"succeeded": 5}
    near = (await ada.get(f"/embeddings/rules/{rules[0]['id']}/near", params={"limit": 2})).json()
    assert isinstance(near, list), near
    assert near[0]["rule_id"] == "R-2"
    assert near[0]["similarity"] > near[1]["similarity"]
    found = (await ada.get("/embeddings/search", params={"q": "a kitten needs food", "limit": 3})).json()
    assert len(found) == 3
    assert found[0]["rule_id"] == "R-4"
    assert len((await eve.get("/embeddings/search", params={"q": "anything"})).json()) == 1, "only its own"


async def test_search_uses_the_index(running_app, ada):
    rule = await add(ada, *RULES[0])
    await testing.drain(running_app.app)
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute("set enable_seqscan = off; set enable_sort = off")  # as if there were many
        plan = db.execute(f"explain {sql('near_rule')}", {"rule": rule["id"], "limit": 3}).fetchall()
    assert "vectors_near" in str(plan)


async def test_a_job_is_asked_for_looked_at_and_listed(running_app, ada):
    rule = await add(ada, *RULES[0], priority="critical")
    (listed,) = (await ada.get("/jobs/embedding", params={"status": "pending"})).json()
    assert (listed["rule_id"], listed["priority"]) == (rule["id"], "urgent")
    again = await ada.post("/jobs/embedding", json={"rule_id": rule["id"], "priority": "low"})
    assert (again.status_code, again.json()["id"]) == (201, listed["id"]), "it is under way already"
    await testing.drain(running_app.app)
    job = (await ada.get(f"/jobs/embedding/{listed['id']}")).json()
    assert job["worker_version"] == version("posthouse")
    assert (job["status"], job["embedding_model"], job["embedding_dimensions"]) == (
        "completed", "local/all-MiniLM-L6-v2/int8", 384
    )  # fmt: skip
    assert (job["attempts"], job["max_attempts"], job["reused"]) == (1, 3, False)
    assert job["processing_time_ms"] > 0
    new = (await ada.post("/jobs/embedding", json={"rule_id": rule["id"], "priority": "low"})).json()
    assert (new["status"], new["priority"], new["created_by"][:4]) == ("pending", "low", "key:")
    await testing.drain(running_app.app)
    assert [one["reused"] for one in (await ada.get("/jobs/embedding?status=completed")).json()] == [
        True,
        False,
    ]
    assert (await ada.get("/jobs/embedding", params={"status": "failed"})).json() == []


async def test_a_job_is_canceled_unless_it_has_ended(running_app, ada):
    await add(ada, *RULES[0])
    (job,) = (await ada.get("/jobs/embedding")).json()
    canceled = await ada.delete(f"/jobs/embedding/{job['id']}")
    assert (canceled.status_code, canceled.json()["status"]) == (200, "canceled")
    (listed,) = (await ada.get("/jobs/embedding", params={"status": "canceled"})).json()
    assert listed["id"] == job["id"]
    await add(ada, *RULES[1])
    assert await testing.drain(running_app.app) == {"succeeded": 1}
    (job,) = (await ada.get("/jobs/embedding", params={"status": "completed"})).json()
    late = await ada.delete(f"/jobs/embedding/{job['id']}")
    assert late.status_code == 409
    assert late.json()["detail"].endswith("it has already ended with status succeeded")


async def test_tenants_know_nothing_of_each_other(running_app, ada, eve):
    rule = await add(ada, *RULES[0])
    await testing.drain(running_app.app)
    (job,) = (await ada.get("/jobs/embedding")).json()
    assert (await eve.get("/jobs/embedding")).json() == []
    for method, path, body in [
        ("get", f"/jobs/embedding/{job['id']}", None),
        ("delete", f"/jobs/embedding/{job['id']}", None),
        ("post", "/jobs/embedding", {"rule_id": rule["id"]}),
        ("get", f"/embeddings/rules/{rule['id']}", None),
        ("get", f"/embeddings/rules/{rule['id']}/near", None),
        ("patch", f"/embeddings/rules/{rule['id']}", {"title": "Mine"}),
        ("delete", f"/embeddings/rules/{rule['id']}", None),
    ]:
        answer = await eve.request(method, path, json=body)
        assert answer.status_code == 404, (method, path, answer.text)
    await add(eve, *RULES[0])
    await testing.drain(running_app.app)
    (own,) = (await eve.get("/jobs/embedding")).json()
    assert own["reused"] is False, "vectors are not shared between tenants"
    assert (await eve.get("/embeddings/queue")).json()[0]["count"] == 1


async def test_changes_are_embedded_and_deleted_rules_are_not(running_app, ada):
    rule = await add(ada, *RULES[0])
    await testing.drain(running_app.app)
    path = f"/embeddings/rules/{rule['id']}"
    assert (await ada.get(path)).json()["embedded"] is True
    same = (await ada.patch(path, json={"priority": "high"})).json()
    assert same["embedded"] is True
    other = (await ada.patch(path, json={"guidance": "Passwords never appear in logs."})).json()
    assert other["embedded"] is False
    assert (await ada.delete(path)).json()["rule_id"] == "R-1"
    assert await testing.drain(running_app.app) == {}
    jobs = (await ada.get("/jobs/embedding")).json()
    assert sorted(job["status"] for job in jobs) == ["canceled", "completed"]
    assert running_app.rows("select distinct input_text from embeddings.embedding_jobs") == [
        {"input_text": None}
    ]


async def test_the_queue_and_the_workers_are_seen(running_app, ada):
    for rule in RULES:
        await add(ada, *rule)
    (row,) = (await ada.get("/embeddings/queue")).json()
    assert (row["status"], row["priority"], row["count"]) == ("pending", "normal", 4)
    await testing.drain(running_app.app)
    (worker,) = (await ada.get("/embeddings/workers")).json()
    assert (worker["jobs_completed"], worker["failures"]) == (4, 0)
    assert worker["avg_time"] > 0


async def test_invalid_requests_are_rejected(running_app, ada):
    viewer = await running_app.client_for("tenant-viewer", "acme")
    rule = await add(ada, *RULES[0])
    twice = await ada.post("/embeddings/rules", json={"rule_id": "R-1", "title": "t", "guidance": "g"})
    assert (twice.status_code, twice.json()["detail"]) == (409, "rule 'R-1' already exists")
    for method, path, body, status in [
        ("post", "/embeddings/rules", {"rule_id": "R-9", "title": " ", "guidance": "g"}, 422),
        ("post", "/embeddings/rules", {"rule_id": "R-9", "title": "t"}, 422),
        ("post", "/jobs/embedding", {"rule_id": str(uuid4())}, 404),
        ("post", "/jobs/embedding", {"rule_id": rule["id"], "priority": "now"}, 422),
        ("get", "/jobs/embedding?status=lost", None, 422),
        ("get", f"/jobs/embedding/{uuid4()}", None, 404),
        ("get", "/embeddings/search", None, 422),
    ]:
        answer = await ada.request(method, path, json=body)
        assert answer.status_code == status, (method, path, answer.text)
    assert (await viewer.post("/jobs/embedding", json={"rule_id": rule["id"]})).status_code == 403
    assert (await viewer.get("/jobs/embedding")).status_code == 200


async def test_odd_bodies_are_refused(ada):
    for body in (
        b'{"rule_id": "R-9", "title": "t", "guidance": "a\\u0000b"}', b'{"rule_id": "\xff"}',
        b'{"rule_id": "\\ud800"}', b"[" * 5000, b"null", b"7",
    ):  # fmt: skip
        answer = await ada.post(
            "/embeddings/rules", content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text


async def test_null_removes_the_rationale_and_is_refused_elsewhere(ada):
    rule = await add(ada, *RULES[0], rationale="They leak.")
    path = f"/embeddings/rules/{rule['id']}"
    assert (await ada.patch(path, json={"priority": "high"})).json()["rationale"] == "They leak."
    for field in ("title", "guidance", "priority"):
        answer = await ada.patch(path, json={field: None})
        assert answer.status_code == 422
        assert f"`{field}` must not be null; omit the field to leave it unchanged" in answer.text
    assert (await ada.patch(path, json={"rationale": None})).json()["rationale"] is None


async def test_a_search_for_a_nul_character_is_refused(ada):
    answer = await ada.get("/embeddings/search", params={"q": "a\0b"})
    assert answer.status_code == 422
    assert "NUL character" in answer.text
