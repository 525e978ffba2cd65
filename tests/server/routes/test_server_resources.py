"""Resources over HTTP, as their users work with them. One server; each test has tenants of its own."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import psycopg
import pytest

from posthouse import testing
from posthouse.keeper.keeper import Keeper
from posthouse.settings import Settings
from support import databases
from support.server import ServerThread, key_for
from support.workers import claim_as_other_worker

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def running_server(server):
    with testing.database(server) as url, ServerThread(Settings(database_url=url)) as running:
        running.path = "/api/v1"
        databases.define(url, "sync", "other")
        yield running


@pytest.fixture
def db(running_server):
    with psycopg.connect(running_server.database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def enter(running_server):
    return running_server.client_for


@pytest.fixture
def tenant():
    return f"tenant-{next(numbers)}"


@pytest.fixture
def acme(enter, tenant):
    return enter("tenant-admin", tenant)


@pytest.fixture
def admin_client(enter):
    return enter("super-admin")


def enqueue(client, **fields):
    made = client.post("/jobs", json={"definition_key": "sync", **fields})
    assert made.status_code == 201, made.text
    return made.json()


def code(answer):
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["code"]


def keep(url):
    """A round of the keeper."""

    async def run():
        keeper = Keeper(url, Settings(database_url=url))
        await keeper.run_once()
        await keeper.stop()

    asyncio.run(run())


def define(db, key="sync"):
    db.execute("select posthouse.announce(%s)", (json.dumps([{"key": key}]),))


def test_options_of_a_job_are_kept(acme):
    first = enqueue(acme)
    job = enqueue(
        acme,
        payload={"a": 1},
        queue="slow",
        priority="high",
        delay_seconds=3600,
        correlation_id="c-1",
        subject="s-1",
        order_key="line",
        max_attempts=7,
        timeout_seconds=30,
        depends_on=[first["id"]],
        retry={"ladder": [60, 300]},
    )
    shown = acme.get(f"/jobs/{job['id']}").json()
    expected = {
        "payload": {"a": 1}, "queue": "slow", "priority": 50, "correlation_id": "c-1", "subject": "s-1",
        "order_key": "line", "max_attempts": 7, "timeout_seconds": 30.0, "depends_on": [first["id"]],
        "status": "queued", "source": "manual",
    }  # fmt: skip
    assert {name: shown[name] for name in expected} == expected
    assert shown["queued_at"] == job["queued_at"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"definition_key": ""}, (422, "invalid_request")),
        ({"definition_kye": "sync"}, (422, "invalid_request")),
        ({"priority": "soon"}, (422, "invalid_request")),
        ({"depends_on": [str(uuid4())]}, (422, "invalid_job")),
        ({"retry": {"ladder": ["x"]}}, (422, "invalid_job")),
        ({"requires": ["no good"]}, (422, "invalid_job")),
        ({"queue": "posthouse.own"}, (422, "invalid_job")),
        ({"subject": "a\u0007b"}, (422, "invalid_job")),
    ],
)
def test_a_wrong_job_is_refused_with_a_code(acme, fields, expected):
    assert code(acme.post("/jobs", json={"definition_key": "sync", **fields})) == expected


@pytest.mark.parametrize(
    "body",
    [
        b'{"definition_key": "sync", "payload": {"a": "\\u0000"}}',
        b'{"definition_key": "sync", "payload": {"a": "\\ud800"}}',
        b'{"definition_key": "sync", "payload": {"a": NaN}}',
        b'{"definition_key": "sync", "payload": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}",
        b'{"definition_key": "sync", "payload": {"a": ' + b"9" * 5000 + b"}}",
        b'{"definition_key": "sync", "payload": {"a": "\xff"}}',
        b"not json",
        b"",
    ],
    ids=["NUL", "surrogate", "NaN", "deep", "long", "not utf-8", "text", "empty"],
)
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/events", "/jobs/triggers"])
def test_what_cannot_be_stored_is_refused_clearly(acme, path, body):
    if path == "/jobs/batch" and body.startswith(b"{"):
        body = b'{"jobs": [' + body + b"]}"
    answer = acme.post(path, content=body, headers={"Content-Type": "application/json"})
    assert code(answer)[0] == 422


def test_bodies_that_are_too_large_are_refused_announced_or_not(acme):
    big = b'{"definition_key": "sync", "payload": {"a": "' + b"x" * 2_000_000 + b'"}}'
    headers = {"Content-Type": "application/json"}
    assert code(acme.post("/jobs", content=big, headers=headers)) == (413, "body_too_large")
    pieces = (big[start : start + 50_000] for start in range(0, len(big), 50_000))
    assert code(acme.post("/jobs", content=pieces, headers=headers)) == (413, "body_too_large")
    almost = {"definition_key": "sync", "payload": {"a": "x" * 1_049_000}}
    assert code(acme.post("/jobs", json=almost)) == (413, "payload_too_large")


def test_unknown_ways_and_methods_are_problems_too(acme):
    unknown = acme.get("/nothing")
    assert code(unknown) == (404, "not_found")
    assert unknown.json()["detail"] == "/api/v1/nothing does not exist on this server; check the path"
    refused = acme.delete("/jobs")
    assert code(refused) == (405, "method_not_allowed")
    assert refused.json()["detail"] == "DELETE is not allowed for /api/v1/jobs"
    assert code(acme.get("/jobs", params={"queue": "a\x00b"})) == (422, "invalid_request")


def test_a_body_without_its_content_type_is_told_which_header_is_missing(acme):
    answer = acme.post("/jobs", content=b'{"definition_key": "sync"}')
    assert code(answer) == (422, "invalid_request")
    assert "send a JSON document with the header `Content-Type: application/json`" in answer.json()["detail"]


def test_requests_have_an_id_their_own_if_it_is_sane(acme):
    assert acme.get("/jobs", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    made = acme.get("/jobs", headers={"X-Request-Id": "no good"}).headers["x-request-id"]
    assert made not in {"", "no good"}
    assert acme.post("/jobs", json={}).headers["x-request-id"]


def test_long_answers_are_compressed_for_those_who_can_read_them(acme):
    for _ in range(5):
        enqueue(acme)
    assert acme.get("/jobs").headers["content-encoding"] == "gzip"
    with acme.stream("GET", "/jobs") as answer:
        assert len(json.loads(gzip.decompress(b"".join(answer.iter_raw())))["items"]) == 5
    assert "content-encoding" not in acme.get("/jobs", headers={"Accept-Encoding": "identity"}).headers


def test_jobs_are_found_by_each_filter(acme, db):
    before = datetime.now(UTC)
    one = enqueue(acme, queue="a", correlation_id="x")["id"]
    two = enqueue(acme, definition_key="other", subject="y")["id"]
    three = enqueue(acme, queue="b")["id"]
    acme.post(f"/jobs/{three}/cancel")

    def found(**query):
        return [item["id"] for item in acme.get("/jobs", params=query).json()["items"]]

    assert found() == [three, two, one]
    assert found(status="queued") == [two, one]
    assert found(status=["canceled", "dead_letter"]) == [three]
    assert found(kind="other") == found(definition_key="other") == [two]
    assert found(queue="a") == found(correlation_id="x") == [one]
    assert found(subject="y") == [two]
    assert found(source="event") == []
    assert found(created_after=before.isoformat()) == [three, two, one]
    assert found(created_before=before.isoformat()) == []
    assert found(created_after=(before + timedelta(minutes=1)).isoformat()) == []
    assert found(offset=1, limit=1) == [two]


def test_pages_of_jobs_follow_each_other(acme):
    made = [enqueue(acme)["id"] for _ in range(5)]
    acme.post(f"/jobs/{made[2]}/cancel")
    seen, cursor = [], None
    while True:
        answer = acme.get("/jobs", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["id"] for item in answer["items"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]
    assert code(acme.get("/jobs", params={"cursor": "nonsense"})) == (422, "invalid_request")
    assert len(acme.get("/jobs", params={"limit": 100_000, "offset": 10**9}).json()["items"]) == 0


def test_the_summary_counts_by_status(acme, db):
    ids = [enqueue(acme)["id"] for _ in range(3)]
    enqueue(acme, delay_seconds=600)
    acme.post(f"/jobs/{ids[0]}/cancel")
    found = acme.get("/jobs/summary").json()
    assert found["counts"] == {
        "queued": 3, "running": 0, "succeeded": 0, "failed": 0, "canceled": 1, "dead_letter": 0,
    }  # fmt: skip
    assert (found["ready"], found["waiting"], found["running"]) == (2, 1, 0)
    assert found["oldest_queued_seconds"] >= 0


def test_what_hangs_on_a_job_is_shown(acme):
    job = enqueue(acme)["id"]
    assert acme.get(f"/jobs/{job}/attempts").json() == []
    assert acme.get(f"/jobs/{job}/parts").json() == []
    assert acme.get(f"/jobs/{job}/steps").json() == []
    assert acme.get(f"/jobs/{job}/logs").json() == {"items": [], "next_cursor": None}
    assert acme.get(f"/jobs/{job}/why").json()["reason"] == "no_worker"
    for what in ("attempts", "parts", "steps", "logs", "why"):
        assert code(acme.get(f"/jobs/{uuid4()}/{what}")) == (404, "job_not_found")


def test_a_job_that_has_not_changed_is_not_sent_again(acme):
    job = enqueue(acme)["id"]
    tag = acme.get(f"/jobs/{job}").headers["etag"]
    again = acme.get(f"/jobs/{job}", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    acme.post(f"/jobs/{job}/cancel")
    assert acme.get(f"/jobs/{job}", headers={"If-None-Match": tag}).status_code == 200


def test_a_batch_is_stored_whole_or_not_at_all(acme):
    done = acme.post(
        "/jobs/batch",
        json={
            "jobs": [
                {"definition_key": "sync", "dedupe_key": "k"},
                {"definition_key": "sync", "dedupe_key": "k"},
            ]
        },
    ).json()
    assert [item["outcome"] for item in done["items"]] == ["created", "existing"]
    assert done["created"] == 1
    wrong = {"jobs": [{"definition_key": "sync"}, {"definition_key": "sync", "depends_on": [str(uuid4())]}]}
    assert code(acme.post("/jobs/batch", json=wrong)) == (422, "invalid_job")
    assert acme.get("/jobs/summary").json()["counts"]["queued"] == 1


def test_a_duplicate_is_answered_with_the_job_that_is_there(acme):
    first = enqueue(acme, dedupe_key="k")
    second = enqueue(acme, dedupe_key="k")
    assert (second["id"], second["outcome"]) == (first["id"], "existing")
    rejected = {"definition_key": "sync", "dedupe_key": "k", "on_duplicate": "reject"}
    assert code(acme.post("/jobs", json=rejected)) == (409, "duplicate_job")


def test_jobs_that_arrive_together_share_nothing_but_the_transaction(running_server, tenant, db):
    """Some of them are refused by the database; the others are there."""
    db.execute("select posthouse.announce(%s)", (json.dumps([{"key": "off", "active": False}]),))
    key = asyncio.run(key_for(running_server.database, "tenant-admin", tenant))

    async def storm():
        headers = {"Authorization": f"Bearer {key}"}
        limits = httpx.Limits(max_connections=32)
        async with httpx.AsyncClient(
            base_url=running_server.url, headers=headers, limits=limits, timeout=30
        ) as client:
            bodies = [
                {"definition_key": "off" if n % 10 == 0 else "sync", "payload": {"n": n}} for n in range(80)
            ]
            return await asyncio.gather(*(client.post("/api/v1/jobs", json=body) for body in bodies))

    answers = asyncio.run(storm())
    assert [answer.status_code for answer in answers[::10]] == [409] * 8
    good = {answer.json()["id"]: n for n, answer in enumerate(answers) if n % 10}
    stored = db.execute(
        "select id::text, payload from posthouse.jobs where tenant_id = %s", (tenant,)
    ).fetchall()
    assert {job: payload["n"] for job, payload in stored} == good


def test_a_key_makes_a_request_count_once(acme, enter):
    for path, body in (
        ("/jobs", {"definition_key": "sync"}),
        ("/jobs/batch", {"jobs": [{"definition_key": "sync"}]}),
        ("/events", {"event_name": "order.paid"}),
    ):
        headers = {"Idempotency-Key": f"key-of-{path}"}
        first = acme.post(path, json=body, headers=headers)
        again = acme.post(path, json=body, headers=headers)
        assert (first.status_code, first.content) == (again.status_code, again.content)
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        other = acme.post(path, json=_changed(body), headers=headers)
        assert code(other) == (422, "idempotency_key_reused")
        stranger = enter("tenant-admin", f"tenant-{next(numbers)}").post(path, json=body, headers=headers)
        assert "idempotency-replayed" not in stranger.headers
    assert acme.get("/jobs/summary").json()["counts"]["queued"] == 2
    assert len(acme.get("/events").json()["items"]) == 1


def _changed(body):
    if "jobs" in body:
        return {"jobs": [*body["jobs"], *body["jobs"]]}
    return {**body, "subject": "another"}


def test_repeats_at_the_same_time_make_one_job(running_server, tenant, db):
    key = asyncio.run(key_for(running_server.database, "tenant-admin", tenant))

    async def storm():
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "same"}
        async with httpx.AsyncClient(base_url=running_server.url, headers=headers, timeout=30) as client:
            body = {"definition_key": "sync"}
            return await asyncio.gather(*(client.post("/api/v1/jobs", json=body) for _ in range(12)))

    answers = asyncio.run(storm())
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert db.execute("select count(*) from posthouse.jobs where tenant_id = %s", (tenant,)).fetchone() == (
        1,
    )


def test_a_refused_request_leaves_its_key_free_and_a_day_frees_every_key(acme, db):
    headers = {"Idempotency-Key": "again"}
    assert acme.post("/jobs", json={"definition_key": ""}, headers=headers).status_code == 422
    first = acme.post("/jobs", json={"definition_key": "sync"}, headers=headers)
    assert first.status_code == 201
    db.execute("update posthouse.idempotency_keys set at = at - interval '25 hours'")
    late = acme.post("/jobs", json={"definition_key": "sync"}, headers=headers)
    assert late.json()["id"] != first.json()["id"]
    db.execute("update posthouse.idempotency_keys set at = at - interval '25 hours'")
    db.execute("select posthouse.delete_stale_rows(posthouse.now())")
    assert db.execute("select count(*) from posthouse.idempotency_keys").fetchone() == (0,)


def test_many_jobs_are_canceled_by_a_filter_after_a_look(acme, db):
    ids = [enqueue(acme, queue="a")["id"] for _ in range(3)] + [enqueue(acme, queue="b")["id"]]
    wanted = {"action": "cancel", "filter": {"queue": "a"}, "dry_run": True}
    looked = acme.post("/jobs/bulk", json=wanted).json()
    assert (looked["matched"], looked["canceled"]) == (3, 0)
    done = acme.post("/jobs/bulk", json={**wanted, "dry_run": False}).json()
    assert (done["matched"], done["canceled"], done["more"]) == (3, 3, False)
    left = [item["id"] for item in acme.get("/jobs", params={"status": "queued"}).json()["items"]]
    assert left == ids[3:]
    assert code(acme.post("/jobs/bulk", json={"action": "cancel", "filter": {}})) == (422, "invalid_request")
    wrong = {"action": "cancel", "filter": {"status": ["succeeded"]}}
    assert code(acme.post("/jobs/bulk", json=wrong)) == (422, "invalid_request")


def dead_letter(db, queue):
    """Run the one job of a queue, and let it fail for good."""
    job, token = claim_as_other_worker(db, queue=queue, kinds=["sync"])
    error = json.dumps({"type": "ValueError", "message": "no", "fingerprint": "abcdef0123456789"})
    db.execute(
        "select posthouse.settle(%s, %s, '{exhaust}', '{failed}', '{null}', %s::text[]::jsonb[])",
        ([job], [token], [error]),
    )


def test_triggers_are_made_changed_looked_ahead_and_removed(acme, db):
    define(db)
    new = {
        "label": "Nightly", "trigger_type": "schedule", "cron_expr": "0 2 * * *",
        "timezone": "America/New_York", "definition_key": "sync", "payload_template": {"path": "/"},
    }  # fmt: skip
    made = acme.post("/jobs/triggers", json=new)
    assert made.status_code == 201, made.text
    trigger = made.json()["id"]
    shown = acme.get(f"/jobs/triggers/{trigger}")
    assert {name: shown.json()[name] for name in new} == new
    runs = acme.get(f"/jobs/triggers/{trigger}/next", params={"count": 3}).json()
    assert [run["local"][11:16] for run in runs] == ["02:00"] * 3
    tag = shown.headers["etag"]
    changed = acme.patch(
        f"/jobs/triggers/{trigger}", json={"cron_expr": "0 3 * * *"}, headers={"If-Match": tag}
    )
    assert changed.json()["cron_expr"] == "0 3 * * *"
    late = acme.patch(f"/jobs/triggers/{trigger}", json={"label": "x"}, headers={"If-Match": tag})
    assert code(late) == (412, "edit_conflict")
    assert acme.post(f"/jobs/triggers/{trigger}/disable").json()["is_enabled"] is False
    assert acme.post(f"/jobs/triggers/{trigger}/enable").json()["is_enabled"] is True
    assert [item["id"] for item in acme.get("/jobs/triggers").json()["items"]] == [trigger]
    assert acme.delete(f"/jobs/triggers/{trigger}").status_code == 204
    assert code(acme.delete(f"/jobs/triggers/{trigger}")) == (404, "trigger_not_found")
    wrong = {**new, "cron_expr": "whenever"}
    assert code(acme.post("/jobs/triggers", json=wrong)) == (422, "invalid_schedule")


def test_lists_of_triggers_go_on_where_the_page_before_ended(acme, db):
    define(db)
    base = {"trigger_type": "event", "event_name": "a.b", "definition_key": "sync"}
    made = {acme.post("/jobs/triggers", json={**base, "label": label}).json()["id"] for label in "aabbb"}
    seen, cursor = [], None
    while cursor is not None or not seen:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        answer = acme.get("/jobs/triggers", params=query).json()
        seen += [item["id"] for item in answer["items"]]
        cursor = answer["next_cursor"]
    assert (len(seen), set(seen)) == (5, made)


def test_an_event_makes_a_job_and_can_be_replayed(running_server, acme, enter, tenant, db):
    define(db)
    rule = {
        "trigger_type": "event", "event_name": "order.*", "definition_key": "sync",
        "payload_template": {"order": "{{event.order}}"}, "dedupe_window_seconds": 0,
    }  # fmt: skip
    assert acme.post("/jobs/triggers", json=rule).status_code == 201
    emitter = enter("event-emitter", tenant)
    emitted = emitter.post("/events", json={"event_name": "order.paid", "context": {"order": 7}})
    assert emitted.status_code == 202
    event = emitted.json()["id"]
    keep(running_server.database)
    assert acme.get(f"/events/{event}").json()["fired"] == 1
    match = acme.get(f"/events/{event}/matches").json()[0]
    assert acme.get(f"/jobs/{match['job_id']}").json()["payload"] == {"order": 7}
    assert acme.post(f"/events/{event}/replay").status_code == 202
    keep(running_server.database)
    assert acme.get("/events", params={"name": "order.*"}).json()["items"][0]["fired"] == 2
    assert code(emitter.get("/events")) == (403, "forbidden")
    assert code(acme.post("/events", json={"event_name": "no good"})) == (422, "invalid_request")


def test_definitions_are_the_operators_and_tenants_see_how_to_enqueue(admin_client, acme):
    new = {
        "key": "sync-folder", "description": "Sync", "timeout_seconds": 60, "max_attempts": 2,
        "arg_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        "command": {"argv": ["true", "{{payload.path}}"], "env": {"A": "1"}},
    }  # fmt: skip
    made = admin_client.post("/admin/jobs/definitions", json=new)
    assert made.status_code == 201, made.text
    assert code(acme.post("/admin/jobs/definitions", json=new)) == (403, "forbidden")
    seen = acme.get("/definitions/sync-folder").json()
    assert (seen["arg_schema"], seen["max_attempts"]) == (new["arg_schema"], 2)
    assert "command" not in seen
    assert code(acme.post("/jobs", json={"definition_key": "sync-folder"})) == (422, "invalid_payload")
    shown = admin_client.get("/admin/jobs/definitions/sync-folder")
    tag = {"If-Match": shown.headers["etag"]}
    changed = admin_client.patch("/admin/jobs/definitions/sync-folder", json={"max_attempts": 5}, headers=tag)
    assert changed.json()["max_attempts"] == 5
    assert changed.json()["code_defaults"]["max_attempts"] == 3
    again = admin_client.patch("/admin/jobs/definitions/sync-folder", json={"max_attempts": 6}, headers=tag)
    assert code(again) == (412, "edit_conflict")
    cleared = admin_client.patch("/admin/jobs/definitions/sync-folder", json={"clear": ["max_attempts"]})
    assert cleared.json()["max_attempts"] == 3
    assert "max_attempts" not in cleared.json()["code_defaults"]
    keys = [item["key"] for item in admin_client.get("/admin/jobs/definitions").json()["items"]]
    assert "sync-folder" in keys
    assert admin_client.delete("/admin/jobs/definitions/sync-folder").status_code == 204
    assert code(admin_client.get("/admin/jobs/definitions/sync-folder")) == (404, "definition_not_found")


def register(db, queue="default"):
    worker = uuid4()
    db.execute(
        "insert into posthouse.workers "
        "(id, name, hostname, pid, queues, kinds, concurrency, started_at, heartbeat_at) "
        "values (%s, 'w-1', 'secret-host', 4711, %s, '{sync}', 5, posthouse.now(), posthouse.now())",
        (worker, [queue]),
    )
    return worker


def test_operators_steer_workers_and_tenants_see_little_of_them(admin_client, acme, db):
    worker = str(register(db))
    assert worker in [item["id"] for item in admin_client.get("/admin/workers").json()]
    assert admin_client.post(f"/admin/workers/{worker}/disable").json() == {"changed": True}
    assert admin_client.post(f"/admin/workers/{worker}/disable").json() == {"changed": False}
    (seen,) = [item for item in acme.get("/workers").json() if item["id"] == worker]
    assert (seen["status"], seen["queues"], seen["running"]) == ("disabled", ["default"], 0)
    assert "secret-host" not in acme.get("/workers").text
    assert admin_client.post(f"/admin/workers/{worker}/enable").json() == {"changed": True}
    assert admin_client.post(f"/admin/workers/{worker}/drain").json() == {"changed": True}
    assert admin_client.get("/admin/workers/changes").status_code == 200
    assert code(admin_client.post(f"/admin/workers/{uuid4()}/drain")) == (404, "worker_not_found")
    assert code(acme.get("/admin/workers")) == (403, "forbidden")
    assert admin_client.get("/admin/workers?jobs=200").status_code == 200
    assert code(admin_client.get("/admin/workers?jobs=201")) == (422, "invalid_request")


def test_names_with_a_slash_are_reached_like_others(admin_client, acme):
    made = admin_client.post(
        "/admin/jobs/definitions", json={"key": "photos/sync", "command": {"argv": ["true"]}}
    )
    assert made.status_code == 201, made.text
    url = "/admin/jobs/definitions/photos%2Fsync"
    assert admin_client.get(url).json()["key"] == "photos/sync"
    assert admin_client.patch(url, json={"max_attempts": 5}).json()["max_attempts"] == 5
    assert acme.get("/definitions/photos%2Fsync").json()["key"] == "photos/sync"
    assert acme.post("/definitions/photos%2Fsync/check", json={"payload": {}}).json()["valid"]
    assert admin_client.delete(url).status_code == 204
    enqueue(acme, queue="mail/out")
    assert admin_client.post("/admin/queues/mail%2Fout/pause").json() == {"changed": True}
    assert admin_client.post("/admin/queues/mail%2Fout/resume").json() == {"changed": True}


def test_queues_show_a_tenant_its_own_and_are_paused_by_operators(admin_client, acme, enter):
    enqueue(acme, queue="q-1")
    other = enter("tenant-admin", "other-tenant")
    enqueue(other, queue="q-1")
    assert admin_client.post("/admin/queues/q-1/pause").json() == {"changed": True}
    (mine,) = [item for item in acme.get("/queues").json() if item["name"] == "q-1"]
    assert (mine["ready"], mine["paused_by"]) == (1, None)
    assert mine["paused_at"]
    (whole,) = [item for item in admin_client.get("/queues").json() if item["name"] == "q-1"]
    assert whole["ready"] == 2
    assert admin_client.post("/admin/queues/q-1/resume").json() == {"changed": True}
    assert code(acme.post("/admin/queues/q-1/pause")) == (403, "forbidden")


def test_limits_are_put_seen_and_removed(admin_client):
    fields = {"kinds": ["welcome"], "max_running": 5, "rate": 2.0}
    put = admin_client.put("/admin/limits/mailer", json=fields)
    assert {name: put.json()[name] for name in fields} == fields
    assert admin_client.put("/admin/limits/mailer", json={"rate": None}).json()["rate"] is None
    assert "mailer" in [item["name"] for item in admin_client.get("/admin/limits").json()]
    assert admin_client.get("/admin/limits/mailer").json()["limit"]["max_running"] == 5
    assert admin_client.delete("/admin/limits/mailer").status_code == 204
    assert code(admin_client.get("/admin/limits/mailer")) == (404, "limit_not_found")


def test_a_super_admin_sees_all_or_the_tenant_that_it_names(admin_client, acme, tenant):
    mine = enqueue(acme)["id"]
    assert mine in [item["id"] for item in admin_client.get("/jobs").json()["items"]]
    assert [item["id"] for item in admin_client.get("/jobs", params={"tenant": tenant}).json()["items"]] == [
        mine
    ]
    assert code(admin_client.get(f"/jobs/{mine}", params={"tenant": "another"})) == (404, "job_not_found")
    made = admin_client.post("/jobs", params={"tenant": tenant}, json={"definition_key": "sync"}).json()
    assert made["tenant_id"] == tenant
    assert code(acme.get("/jobs", params={"tenant": "another"})) == (403, "forbidden")


def test_the_audit_shows_a_tenant_what_was_done_to_its_own(admin_client, acme, enter):
    job = enqueue(acme)["id"]
    acme.post(f"/jobs/{job}/cancel")
    entries = acme.get("/admin/audit").json()["items"]
    assert [(entry["action"], entry["target"]) for entry in entries if entry["action"] != "key.create"] == [
        ("job.cancel", job)
    ]
    stranger = enter("tenant-admin", "a-stranger")
    assert job not in stranger.get("/admin/audit").text
    assert job in admin_client.get("/admin/audit", params={"action": "job"}).text


def test_operators_see_the_whole_and_tenants_do_not(admin_client, acme):
    enqueue(acme)
    whole = admin_client.get("/admin/overview").json()
    assert whole["jobs"]["counts"]["queued"] >= 1
    assert {item["category"] for item in admin_client.get("/admin/retention").json()["tables"]} >= {"jobs"}
    for path in ("/admin/overview", "/admin/retention", "/admin/limits"):
        assert code(acme.get(path)) == (403, "forbidden")


def test_failures_are_grouped_and_their_jobs_run_again(running_server, acme, tenant, db):
    queue = f"failing-{tenant}"
    job = enqueue(acme, queue=queue, max_attempts=1)["id"]
    dead_letter(db, queue)
    keep(running_server.database)
    (group,) = acme.get("/failures").json()["items"]
    assert group["dead_letter"] == 1
    detail = acme.get(f"/failures/{group['fingerprint']}").json()
    assert [item["id"] for item in detail["jobs"]] == [job]
    looked = acme.post(
        "/jobs/bulk", json={"action": "retry", "filter": {"definition_key": "sync"}, "dry_run": True}
    ).json()
    assert (looked["matched"], looked["bulk_id"]) == (1, None)
    started = acme.post(
        "/jobs/bulk", json={"action": "retry", "filter": {"definition_key": "sync"}, "rate": 100}
    ).json()
    bulk = started["bulk_id"]
    for _ in range(3):
        keep(running_server.database)
    assert acme.get(f"/jobs/bulk/{bulk}").json()["retried"] == 1
    assert acme.get(f"/jobs/{job}").json()["status"] == "queued"
    assert [item["id"] for item in acme.get("/jobs/bulk").json()["items"]] == [bulk]
    assert acme.post(f"/jobs/bulk/{bulk}/stop").json() == {"changed": False}
    other = acme.post("/jobs/bulk", json={"action": "retry", "filter": {"definition_key": "sync"}}).json()
    assert acme.post(f"/jobs/bulk/{other['bulk_id']}/stop").json() == {"changed": True}
    assert code(acme.post("/jobs/bulk", json={"action": "retry", "filter": {"subject": "x"}}))[0] == 422


def test_statistics_and_alerts_are_read(acme, admin_client):
    assert acme.get("/stats", params={"by": ["queue", "kind"], "span_seconds": 7200}).status_code == 200
    assert acme.get("/alerts").json() == {"items": [], "next_cursor": None}
    assert admin_client.get("/alerts", params={"within_seconds": 60}).status_code == 200
