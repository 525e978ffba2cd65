"""The worker API as a client without the Python library calls it."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from posthouse import testing
from posthouse.server.workers.claims import READY, WorkerNotifications
from support.remote import RemoteServer
from support.waiting import WAIT_SECONDS, eventually
from support.workers import expire_lease_and_rescue

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECRET = "the-admin-secret-of-thirty-two-and-more"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote_server(server, tmp_path_factory):
    with testing.database(server) as database:
        async with RemoteServer.over(
            database, tmp_path_factory.mktemp("api"), admin_secret=SECRET
        ) as remote_server:
            yield remote_server


class WorkerClient:
    """A worker that is a few HTTP calls."""

    def __init__(self, remote_server, key, worker_id):
        self.http = remote_server.http(key)
        self.id = worker_id

    async def post(self, path, status=200, **body):
        answer = await self.http.post(path, json=body)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def claim(self, queue, kinds=("chop",), status=200, **more):
        return await self.post(
            "jobs/claim", status, worker_id=self.id, queues=[queue], kinds=list(kinds), **more
        )

    async def batch(self, path, *jobs, status=200):
        return await self.post(path, status, worker_id=self.id, jobs=list(jobs))


@pytest.fixture
def worker_clients(remote_server):
    """Makes workers, each with a key of its own unless one is given."""

    async def make(key=None, queues=("default",), kinds=("chop",), **scope):
        key = key or await remote_server.key(**scope)
        worker_client = WorkerClient(remote_server, key, str(uuid4()))
        known = {"worker_id": worker_client.id, "queues": list(queues), "kinds": list(kinds), "name": "hand"}
        await worker_client.post("register", 201, **known)
        return worker_client

    return make


@pytest.fixture
def queue():
    return f"q-{uuid4().hex[:8]}"


async def test_a_job_is_claimed_reported_on_and_completed(remote_server, worker_clients, queue):
    worker_client = await worker_clients()
    job_id = await remote_server.enqueue("chop", {"wood": [1.5, None]}, queue=queue, correlation_id="c")
    answer = await worker_client.claim(queue)
    (job,) = answer["jobs"]
    token = {"token": answer["token"]}
    assert (job["id"], job["payload"], job["attempt"]) == (str(job_id), {"wood": [1.5, None]}, 1)
    path = f"jobs/{job_id}"
    assert await worker_client.post(f"{path}/heartbeat", **token) == {"canceled": False, "drain": False}
    await worker_client.post(
        f"{path}/progress", **token, percent=20, parts=[{"name": "a", "status": "completed"}]
    )
    await worker_client.post(f"{path}/log", 204, **token, lines=["chopping"])
    assert await worker_client.post(f"{path}/steps", **token, name="axe/1", result={"sharp": True}) == {
        "outcome": "kept"
    }
    headers = {"X-Lease-Token": answer["token"]}
    step = (await worker_client.http.get(f"{path}/steps", params={"name": "axe/1"}, headers=headers)).json()
    assert step == [{"name": "axe/1", "result": {"sharp": True}}]
    parts = (await worker_client.http.get(f"{path}/parts", headers=headers)).json()
    assert [(part["name"], part["percent"]) for part in parts] == [("a", 100)]
    followup = {"kind": "chop", "payload": {}, "queue": queue}
    await worker_client.post(f"{path}/complete", **token, result={"logs": 3}, followups=[followup])
    row = remote_server.row(job_id)
    assert (row["status"], row["result"], row["progress_percent"]) == ("succeeded", {"logs": 3}, 100)
    (child,) = (await worker_client.claim(queue))["jobs"]
    assert child["parent_id"] == str(job_id)


async def test_a_repeated_completion_is_done_once_and_a_stale_one_is_refused(
    remote_server, worker_clients, queue
):
    worker_client = await worker_clients()
    job_id = await remote_server.enqueue("chop", queue=queue)
    token = (await worker_client.claim(queue))["token"]
    expire_lease_and_rescue(remote_server.db, job_id)
    for path, more in (
        ("complete", {"result": 1}), ("fail", {"error": "x"}), ("progress", {"percent": 1}),
        ("heartbeat", {}), ("log", {"lines": ["x"]}), ("steps", {"name": "s"}),
    ):  # fmt: skip
        answer = await worker_client.post(f"jobs/{job_id}/{path}", 409, token=token, **more)
        assert answer["code"] == "lease_lost"
    assert remote_server.row(job_id)["status"] == "queued"
    token = (await worker_client.claim(queue))["token"]
    for _ in range(2):
        await worker_client.post(f"jobs/{job_id}/complete", token=token, result=2)
    assert remote_server.row(job_id)["result"] == 2
    assert [attempt["outcome"] for attempt in remote_server.attempts(job_id)] == ["lost", "succeeded"]


async def test_one_bad_item_of_a_batch_does_not_fail_its_peers(remote_server, worker_clients, queue):
    worker_client = await worker_clients()
    ids = [await remote_server.enqueue("chop", {"n": n}, queue=queue) for n in range(4)]
    answer = await worker_client.claim(queue, limit=10)
    held = {job["id"]: {"id": job["id"], "token": answer["token"]} for job in answer["jobs"]}
    lost, bad, good, failing = [held[str(job_id)] for job_id in ids]
    expire_lease_and_rescue(remote_server.db, ids[0])
    beat = await worker_client.batch("heartbeat", *held.values())
    assert (beat["lost"], beat["canceled"]) == ([lost["id"]], [])
    reported = await worker_client.batch("jobs/progress", {**lost, "percent": 1}, {**good, "percent": 2})
    assert reported["lost"] == [lost["id"]]
    answer = await worker_client.batch(
        "jobs/complete", lost, {**bad, "followups": [{"kind": "", "payload": {}}]}, {**good, "result": 7}
    )
    assert answer["lost"] == [lost["id"]]
    assert [item["id"] for item in answer["rejected"]] == [bad["id"]]
    answer = await worker_client.batch("jobs/fail", lost, {**failing, "error": "too hard", "retry": False})
    assert answer["lost"] == [lost["id"]]
    assert [remote_server.row(job_id)["status"] for job_id in ids] == [
        "queued",
        "running",
        "succeeded",
        "failed",
    ]


async def test_a_waiting_claim_is_answered_when_a_job_comes(remote_server, worker_clients, queue):
    worker_client = await worker_clients()
    waiting = asyncio.create_task(worker_client.claim(queue, wait_seconds=30))
    await eventually(
        lambda: remote_server.db.execute(
            "select count(*) from pg_locks where locktype = 'advisory' and classid = 7702 and objid = "
            "(hashtext(%s)::bigint & 4294967295)::oid", (queue,)
        ).fetchone() == (1,),
        what="the wish to be woken",
    )  # fmt: skip
    job_id = await remote_server.enqueue("chop", queue=queue)
    answer = await asyncio.wait_for(waiting, 10)
    assert [job["id"] for job in answer["jobs"]] == [str(job_id)]


async def test_what_a_claim_took_whose_answer_was_lost_is_handed_out_again(
    remote_server, worker_clients, queue
):
    worker_client = await worker_clients()
    job_id = await remote_server.enqueue("chop", queue=queue)
    lost = str(uuid4())
    await worker_client.claim(queue, token=lost)
    again = await worker_client.claim(queue, pending_tokens=[str(uuid4()), lost])
    assert [(found["token"], [job["id"] for job in found["jobs"]]) for found in again["recovered"]] == [
        (lost, [str(job_id)])
    ]
    stranger = await worker_clients()
    assert (await stranger.claim(queue, pending_tokens=[lost]))["recovered"] == []


async def test_a_worker_key_gets_jobs_of_its_tenant_and_queues_only(remote_server, worker_clients, queue):
    other_queue = f"{queue}-other"
    mine = await remote_server.enqueue("chop", queue=queue, tenant="acme")
    theirs = await remote_server.enqueue("chop", queue=queue, tenant="globex")
    elsewhere = await remote_server.enqueue("chop", queue=other_queue, tenant="acme")
    of_tenant = await worker_clients(tenant="acme")
    of_queue = await worker_clients(queues=[other_queue])
    of_queue = await worker_clients(
        key=await remote_server.key(queues=[other_queue]), queues=[queue, other_queue]
    )
    both = {"queues": [queue, other_queue], "kinds": ["chop"], "limit": 10}
    got = await of_queue.post("jobs/claim", worker_id=of_queue.id, **both)
    assert [job["id"] for job in got["jobs"]] == [str(elsewhere)]
    got = await of_tenant.post("jobs/claim", worker_id=of_tenant.id, **both)
    assert [job["id"] for job in got["jobs"]] == [str(mine)]
    assert remote_server.row(theirs)["status"] == "queued"
    followup = {"kind": "chop", "queue": queue, "tenant_id": "globex", "payload": {}}
    await of_tenant.post(f"jobs/{mine}/complete", token=got["token"], followups=[followup])
    tenants = remote_server.db.execute(
        "select tenant_id from posthouse.jobs where parent_id = %s", (mine,)
    ).fetchall()
    assert tenants == [("acme",)]


async def test_a_follow_up_cannot_wait_for_a_job_of_another_tenant(remote_server, worker_clients, queue):
    job_id = await remote_server.enqueue("chop", queue=queue, tenant="acme")
    theirs = await remote_server.enqueue("chop", queue="unserved", tenant="globex")
    worker_client = await worker_clients(tenant="acme")
    token = (await worker_client.claim(queue))["token"]
    followup = {"kind": "chop", "payload": {}, "depends_on": [str(theirs)]}
    answer = await worker_client.post(f"jobs/{job_id}/complete", 422, token=token, followups=[followup])
    assert "does not exist" in answer["detail"]


async def test_a_key_does_not_speak_for_the_worker_of_another(remote_server, worker_clients, queue):
    one, other = await worker_clients(), await worker_clients()
    job_id = await remote_server.enqueue("chop", queue=queue)
    token = (await one.claim(queue))["token"]
    other.id = one.id
    for path, body in (
        ("register", {}), ("heartbeat", {}), ("deregister", {}), ("notifications", {}),
        ("subscription", {"queues": [], "kinds": []}), ("jobs/complete", {"jobs": []}),
        ("jobs/settle", {"jobs": []}), ("jobs/fail", {"jobs": []}), ("jobs/progress", {"jobs": []}),
        ("jobs/log", {"lines": []}), ("jobs/claim", {"queues": [queue], "kinds": ["chop"]}),
    ):  # fmt: skip
        assert (await other.post(path, 403, worker_id=one.id, **body))["code"] == "forbidden", path
    for path in ("heartbeat", "progress", "fail"):
        await other.post(f"jobs/{job_id}/{path}", 409, token=token)
    answer = await other.http.get(f"jobs/{job_id}/steps", headers={"X-Lease-Token": token})
    assert answer.status_code == 409
    other.id = str(uuid4())
    assert (await other.claim(queue, status=404))["code"] == "worker_not_found"


async def test_definitions_are_written_by_keys_of_all_tenants_only(remote_server, worker_clients, queue):
    def definition(kind, home):
        return {"key": kind, "queue": home, "schema": {}, "description": "from afar"}

    kinds = [f"{queue}-a", f"{queue}-b"]
    known = [definition(kinds[0], queue), definition(kinds[1], "default")]
    for scope, expected in (
        ({"tenant": "acme"}, []), ({"queues": [queue]}, kinds[:1]), ({}, kinds),
    ):  # fmt: skip
        worker_client = WorkerClient(remote_server, await remote_server.key(**scope), str(uuid4()))
        answer = await worker_client.post(
            "register", 201, worker_id=worker_client.id, definitions=known, queues=[queue]
        )
        assert answer["announced"] == expected
    written = remote_server.db.execute(
        "select count(*) from posthouse.definitions where key = any (%s)", (kinds,)
    )
    assert written.fetchone() == (2,)


async def test_an_admin_registers_a_worker_and_its_key_is_shown_once(remote_server, queue):
    admin = {"Authorization": f"Bearer {await remote_server.key('super-admin')}"}
    for headers in ({"X-Admin-Secret": SECRET}, admin):
        async with httpx.AsyncClient(base_url=remote_server.url, headers=headers) as http:
            answer = await http.post("/api/v1/worker/register", json={"name": "gpu-1", "queues": [queue]})
        assert answer.status_code == 201, answer.text
        known = answer.json()
        worker_client = WorkerClient(remote_server, known["api_key"], known["worker_id"])
        job_id = await remote_server.enqueue("chop", queue=queue)
        claim = await worker_client.claim(queue)
        assert [job["id"] for job in claim["jobs"]] == [str(job_id)]
    for headers in ({"X-Admin-Secret": "guess"}, {"X-Admin-Secret": ""}, {}):
        async with httpx.AsyncClient(base_url=remote_server.url, headers=headers) as http:
            assert (await http.post("/api/v1/worker/register", json={})).status_code == 401
    viewer = remote_server.http(await remote_server.key("tenant-admin", tenant="acme"))
    assert (await viewer.post("register", json={})).status_code == 403


async def test_simple_workers_claim_report_and_end_under_the_old_paths(remote_server, queue):
    async with httpx.AsyncClient(base_url=f"{remote_server.url}/api/worker/") as http:
        new = {"worker_name": "vlog-1", "capabilities": {"gpu": True}, "queues": [queue], "kinds": ["chop"]}
        known = (await http.post("register", json=new, headers={"X-Admin-Secret": SECRET})).json()
        http.headers["Authorization"] = f"Bearer {known['api_key']}"
        assert (await http.post("heartbeat", json={"status": "idle"})).json()["status"] == "ok"
        assert (await http.post("claim", json={})).json()["job"] is None
        first = await remote_server.enqueue("chop", {"video": 7}, queue=queue, requires=["gpu"])
        claimed = (await http.post("claim", json={})).json()
        assert (claimed["job"]["job_id"], claimed["job"]["payload"]) == (str(first), {"video": 7})
        report = {
            "job_id": str(first), "current_step": "transcode", "progress_percent": 40,
            "quality_progress": [
                {"quality": "720p", "status": "completed", "segments_total": 9, "segments_completed": 9},
                {"quality": "480p", "progress_percent": 33, "segments_total": 9, "segments_completed": 3},
                {"quality": "360p", "status": "failed", "error_message": "no space left"},
            ],
        }  # fmt: skip
        assert (await http.post("progress", json=report)).status_code == 200
        parts = remote_server.db.execute(
            "select name, status, percent, total, done, error from posthouse.parts where job_id = %s "
            "order by ordinal", (first,)
        ).fetchall()  # fmt: skip
        assert parts == [
            ("720p", "completed", 100, 9, 9, None),
            ("480p", "in_progress", 33, 9, 3, None),
            ("360p", "failed", 0, None, None, "no space left"),
        ]
        assert (await http.post("complete", json={"job_id": str(first), "result": [1]})).status_code == 200
        row = remote_server.row(first)
        assert (row["status"], row["current_step"], row["result"]) == ("succeeded", "transcode", [1])
        second = await remote_server.enqueue("chop", queue=queue)
        await http.post("claim", json={})
        failed = {"job_id": str(second), "error_message": "no codec", "retry": False}
        assert (await http.post("fail", json=failed)).status_code == 200
        assert (remote_server.row(second)["status"], remote_server.attempts(second)[0]["error_message"]) == (
            "failed",
            "no codec",
        )
        answer = await http.post("complete", json={"job_id": str(second)})
        assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost")


async def test_a_disabled_worker_gets_no_jobs_and_a_drained_one_is_notified(
    remote_server, worker_clients, queue
):
    worker_client = await worker_clients()
    await remote_server.enqueue("chop", queue=queue)
    remote_server.db.execute("select posthouse.disable_worker(%s)", (worker_client.id,))
    assert (await worker_client.claim(queue))["jobs"] == []
    remote_server.db.execute("select posthouse.enable_worker(%s)", (worker_client.id,))
    remote_server.db.execute("select posthouse.drain_worker(%s)", (worker_client.id,))
    assert (await worker_client.claim(queue))["jobs"] == []
    assert (await worker_client.post("heartbeat", worker_id=worker_client.id))["drain"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("jobs/claim", {"queues": ["a\0b"], "kinds": ["x"]}),
        ("jobs/claim", {"queues": ["a"], "kinds": ["x"], "limit": 10**9}),
        ("jobs/claim", {"queues": ["a"], "kinds": ["x"], "lease_seconds": 1e300}),
        ("jobs/claim", {"queues": ["a"], "kinds": ["x"], "lane_cursors": [[2**70, 1]]}),
        ("jobs/complete", {"jobs": [{"id": "nonsense", "token": "x"}]}),
        ("jobs/settle", {"jobs": [{"id": str(uuid4()), "token": str(uuid4()), "event": "claim"}]}),
        ("jobs/progress", {"jobs": [{"id": str(uuid4()), "token": str(uuid4()), "percent": 101}]}),
        ("jobs/log", {"lines": [{"id": str(uuid4()), "token": str(uuid4()), "text": "x", "stream": "tv"}]}),
        ("heartbeat", {"jobs": "all"}),
        ("register", {"pid": -1}),
        ("register", {"name": "\0"}),
    ],
)
async def test_invalid_requests_are_rejected_with_a_reason(remote_server, worker_clients, path, body):
    worker_client = await worker_clients()
    answer = await worker_client.post(path, 422, worker_id=worker_client.id, **body)
    assert answer["code"] == "invalid_request"
    assert answer["detail"]


async def test_awkward_texts_and_results_are_stored_escaped(remote_server, worker_clients, queue):
    worker_client = await worker_clients()
    job_id = await remote_server.enqueue("chop", queue=queue)
    token = (await worker_client.claim(queue))["token"]
    nested = json.loads("[" * 300 + "]" * 300)
    await worker_client.post(f"jobs/{job_id}/complete", token=token, result={"a\0b": "c\0d", "deep": nested})
    assert "a\\u0000b" in remote_server.row(job_id)["result"]


async def test_a_report_of_an_earlier_attempt_does_not_come_in_with_one_of_the_next(
    remote_server, worker_clients, queue
):
    worker_client = await worker_clients()
    job_id = await remote_server.enqueue("chop", queue=queue)
    stale = {"id": str(job_id), "token": (await worker_client.claim(queue))["token"]}
    expire_lease_and_rescue(remote_server.db, job_id)
    live = {"id": str(job_id), "token": (await worker_client.claim(queue))["token"]}
    part = {"name": "a", "status": "completed"}
    answer = await worker_client.batch(
        "jobs/progress", {**stale, "percent": 90, "parts": [part]}, {**live, "percent": 10}
    )
    assert answer == {"lost": [str(job_id)], "busy": []}
    assert remote_server.row(job_id)["progress_percent"] == 10
    parts = remote_server.db.execute("select count(*) from posthouse.parts where job_id = %s", (job_id,))
    assert parts.fetchone() == (0,)


async def test_what_the_database_does_not_take_is_refused_for_good(remote_server, worker_clients, queue):
    worker_client = await worker_clients()
    job_id = await remote_server.enqueue("chop", queue=queue)
    token = (await worker_client.claim(queue))["token"]
    twice = [{"name": "a", "status": "completed"}, {"name": "a", "status": "failed"}]
    answer = await worker_client.post(f"jobs/{job_id}/progress", 422, token=token, parts=twice)
    assert answer["code"] == "request_rejected"


async def test_a_repeated_request_does_not_wait_while_the_server_stops(database):
    """Otherwise the server would wait for the request until its shutdown timeout."""
    notifications = WorkerNotifications(database)
    notifications.wake_all()
    again = notifications.wait(notifications.cursor, [(READY, "default")], 600)
    await asyncio.wait_for(again, 20)


async def test_the_health_of_the_worker_api_has_counts_within_the_scope_of_the_key(
    remote_server, worker_clients, queue
):
    url = f"{remote_server.url}/api/worker/health"
    await worker_clients(queues=(queue,))
    key = await remote_server.key(queues=[queue])
    for _ in range(2):
        await remote_server.enqueue("chop", queue=queue)
    health = {"status": "ok", "database": "ok", "redis": "not configured"}
    async with httpx.AsyncClient() as stranger:
        assert (await stranger.get(url)).json() == health

    async def seen_by(key):
        return (await remote_server.http(key).get(url)).json()

    async with asyncio.timeout(WAIT_SECONDS):  # the counts are cached for a few seconds
        while (await seen_by(key)) != {**health, "active_workers": 1, "pending_jobs": 2}:
            await asyncio.sleep(0.2)
    everything = await seen_by(await remote_server.key("super-admin"))
    assert everything["pending_jobs"] >= 2
    other = await seen_by(await remote_server.key("tenant-admin", tenant="no-jobs"))
    assert (other["active_workers"], other["pending_jobs"]) == (0, 0)


async def test_the_health_of_the_worker_api_says_if_redis_is_reachable(
    database, tmp_path, redis_server, monkeypatch
):
    monkeypatch.setattr("posthouse.server.app.CACHE_SECONDS", 0.1)

    async def redis_seen(remote_server):
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{remote_server.url}/api/worker/health")).json()["redis"]

    settings = {"dispatch": "hybrid", "redis_url": redis_server.url}
    async with RemoteServer.over(database, tmp_path, **settings) as remote_server:
        assert await redis_seen(remote_server) == "ok"
        redis_server.kill()
        async with asyncio.timeout(WAIT_SECONDS):  # cached for a moment
            while await redis_seen(remote_server) != "unreachable":
                await asyncio.sleep(0.1)
