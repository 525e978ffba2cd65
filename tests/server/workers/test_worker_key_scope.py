"""What a worker key cannot do: reach beyond its tenant, its queues, or the leases of its own workers."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from test_worker_api import WorkerClient

from posthouse import testing
from support.remote import RemoteServer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote_server(server, tmp_path_factory):
    with testing.database(server) as database:
        async with RemoteServer.over(database, tmp_path_factory.mktemp("scope")) as remote_server:
            yield remote_server


@pytest.fixture
def queue():
    return f"q-{uuid4().hex[:8]}"


@pytest.fixture
def worker(remote_server):
    """Creates a worker with a key of its own; registers it unless told otherwise."""

    async def make(queue, *, registered=True, **scope):
        worker_client = WorkerClient(remote_server, await remote_server.key(**scope), str(uuid4()))
        if registered:
            await register(worker_client, queue)
        return worker_client

    return make


async def register(worker_client, queue, status=201, **announced):
    return await worker_client.post(
        "register", status, worker_id=worker_client.id, name="w", queues=[queue], kinds=["chop"], **announced
    )


def definition(kind, queue, **fields):
    return {"key": kind, "queue": queue, **fields}


def stored(remote_server, table, name, column="key"):
    return remote_server.db.execute(
        f"select * from posthouse.{table} where {column} = %s", (name,)
    ).fetchone()


COMMAND = {"argv": ["/bin/sh", "-c", "id"]}


@pytest.mark.parametrize("scope", [{}, {"queues": True}], ids=["all queues", "one queue"])
@pytest.mark.parametrize(
    "fields", [{"runner": "command", "command": COMMAND}, {"command": COMMAND}, {"runner": "command"}],
    ids=["runner and command", "command", "runner"],
)  # fmt: skip
async def test_no_key_announces_a_command(remote_server, worker, queue, scope, fields):
    worker_client = await worker(queue, registered=False, **({"queues": [queue]} if scope else {}))
    answer = await register(
        worker_client, queue, 422, definitions=[definition(f"{queue}.run", queue, **fields)]
    )
    assert answer["code"] == "invalid_definition"
    assert stored(remote_server, "definitions", f"{queue}.run") is None


async def test_a_handler_does_not_become_a_command(remote_server, worker, queue):
    worker_client = await worker(queue, registered=False)
    await register(worker_client, queue, definitions=[definition(queue, queue)])
    await register(
        worker_client, queue, 422, definitions=[definition(queue, queue, runner="command", command=COMMAND)]
    )
    runner = remote_server.db.execute(
        "select runner from posthouse.definitions where key = %s", (queue,)
    ).fetchone()
    assert runner == ("handler",)
    with pytest.raises(psycopg.errors.CheckViolation):
        remote_server.db.execute(
            "update posthouse.definitions set runner = 'command', command = '{}' where key = %s", (queue,)
        )


@pytest.mark.parametrize(
    "fields", [{"schema": {"type": 7}}, {"retry": {"ladder": "x"}}, {"max_attempts": 0}, {"made_up": 1}]
)
async def test_announced_definitions_are_checked_like_those_of_operators(
    remote_server, worker, queue, fields
):
    worker_client = await worker(queue, registered=False)
    answer = await register(worker_client, queue, 422, definitions=[definition(queue, queue, **fields)])
    assert answer["code"] == "invalid_definition"
    assert stored(remote_server, "definitions", queue) is None


async def test_announcing_is_a_permission_of_the_key(remote_server, worker, queue):
    worker_client = await worker(queue, registered=False, may_announce=False)
    answer = await register(
        worker_client, queue, definitions=[definition(queue, queue)],
        limits=[{"name": queue, "kinds": [queue], "max_running": 0}],
    )  # fmt: skip
    assert answer["announced"] == []
    assert "may not announce" in answer["left_out"][queue]
    assert stored(remote_server, "definitions", queue) is None
    assert stored(remote_server, "limits", queue, "name") is None


async def test_a_scoped_key_announces_kinds_of_its_own_queues_only(remote_server, worker, queue):
    trusted = await worker(queue, registered=False)
    await register(trusted, queue, definitions=[definition(f"{queue}.theirs", "billing")])
    worker_client = await worker(queue, registered=False, queues=[queue])
    announced = [
        definition(f"{queue}.own", queue),
        definition(f"{queue}.elsewhere", "billing"),
        definition(f"{queue}.theirs", queue),
        definition(f"{queue}.leaky", queue, followup_queues=["billing"]),
        definition("posthouse.webhook", queue),
    ]
    answer = await register(worker_client, queue, definitions=announced)
    assert answer["announced"] == [f"{queue}.own"]
    assert answer["left_out"].keys() == {item["key"] for item in announced[1:]}


def schedule(kind, name, **fields):
    return {
        "tenant_id": "acme", "name": name, "label": name, "type": "schedule", "cron_expr": "* * * * *",
        "timezone": "UTC", "definition_key": kind, "payload_template": {}, **fields,
    }  # fmt: skip


def triggers(remote_server, kind):
    return remote_server.db.execute(
        "select tenant_id, definition_key, created_by from posthouse.triggers where definition_key = %s",
        (kind,),
    ).fetchall()


async def test_a_scoped_key_creates_and_removes_no_triggers(remote_server, worker, queue):
    trusted = await worker(queue, registered=False)
    kind = definition(queue, queue)
    await register(trusted, queue, definitions=[kind], triggers=[schedule(queue, f"{queue} schedule 1")])
    before = triggers(remote_server, queue)
    assert [row[:2] for row in before] == [("acme", queue)]
    worker_client = await worker(queue, registered=False, queues=[queue])
    await register(worker_client, queue, definitions=[{**kind, "description": "new"}])
    await register(worker_client, queue, definitions=[kind], triggers=[schedule(queue, "another")])
    assert triggers(remote_server, queue) == before


async def test_triggers_name_the_key_that_announced_them(remote_server, worker, queue):
    worker_client = await worker(queue, registered=False)
    kind = definition(queue, queue)
    await register(
        worker_client, queue, definitions=[kind], triggers=[schedule(queue, f"{queue} schedule 1")]
    )
    [(_, _, created_by)] = triggers(remote_server, queue)
    assert created_by.startswith("key:")
    audited = remote_server.db.execute(
        "select action, actor from posthouse.audit where target = %s or after ->> 'definition_key' = %s",
        (queue, queue),
    ).fetchall()
    assert {action for action, _ in audited} == {"definition.announce", "trigger.create"}
    assert {actor for _, actor in audited} == {created_by}


async def test_a_trigger_of_another_kind_is_not_redirected(remote_server, worker, queue):
    theirs, own = f"{queue}.theirs", f"{queue}.own"
    one, other = await worker(queue, registered=False), await worker(queue, registered=False)
    name = f"{theirs} schedule 1"
    await register(one, queue, definitions=[definition(theirs, queue)], triggers=[schedule(theirs, name)])
    answer = await register(
        other, queue, 422, definitions=[definition(own, queue)], triggers=[schedule(own, name)]
    )
    assert answer["code"] == "invalid_trigger"
    assert [row[1] for row in triggers(remote_server, theirs)] == [theirs]


@pytest.mark.parametrize(
    "selector",
    [{"kinds": ["foreign"]}, {"queues": ["billing"]}, {"tenants": ["acme"]}, {}, {"kinds": []}],
    ids=["another kind", "a queue", "a tenant", "all jobs", "no kind"],
)
async def test_a_limit_applies_to_announced_kinds_only(remote_server, worker, queue, selector):
    worker_client = await worker(queue, registered=False, queues=[queue])
    limit = {"name": queue, "max_running": 0, **selector}
    await register(worker_client, queue, definitions=[definition(queue, queue)], limits=[limit])
    assert stored(remote_server, "limits", queue, "name") is None


async def test_a_scoped_key_does_not_join_a_limit_of_other_kinds(remote_server, worker, queue):
    trusted = await worker(queue, registered=False)
    shared = {"name": queue, "kinds": [f"{queue}.theirs"], "max_running": 5}
    await register(trusted, queue, definitions=[definition(f"{queue}.theirs", "billing")], limits=[shared])
    worker_client = await worker(queue, registered=False, queues=[queue])
    joined = {"name": queue, "kinds": [queue], "max_running": 0}
    await register(worker_client, queue, definitions=[definition(queue, queue)], limits=[joined])
    row = remote_server.db.execute(
        "select kinds, max_running from posthouse.limits where name = %s", (queue,)
    ).fetchone()
    assert row == ([f"{queue}.theirs"], 5)


async def test_limits_of_a_remote_worker_are_stored(remote_server, worker, queue):
    worker_client = await worker(queue, registered=False, queues=[queue])
    limit = {"name": queue, "kinds": [queue], "per": "all", "max_running": 2}
    await register(worker_client, queue, definitions=[definition(queue, queue)], limits=[limit])
    row = remote_server.db.execute(
        "select kinds, max_running, origin from posthouse.limits where name = %s", (queue,)
    ).fetchone()
    assert row == ([queue], 2, "code")


async def followed(remote_server, worker_client, queue, followup, *, many):
    """Complete a job of tenant acme with one follow-up."""
    job_id = await remote_server.enqueue("chop", queue=queue, tenant="acme")
    claim = await worker_client.claim(queue)
    done = {"token": claim["token"], "followups": [followup]}
    if many:
        answer = await worker_client.batch("jobs/complete", {"id": str(job_id), **done})
        return [item["detail"] for item in answer["rejected"]]
    answer = await worker_client.http.post(f"jobs/{job_id}/complete", json=done)
    return [] if answer.status_code == 200 else [answer.json()["detail"]]


@pytest.mark.parametrize("many", [True, False])
async def test_followups_of_a_scoped_key_take_the_tenant_of_their_parent(remote_server, worker, queue, many):
    worker_client = await worker(queue, queues=[queue])
    followup = {"id": str(uuid4()), "kind": "next", "queue": queue, "tenant_id": "globex", "payload": {}}
    assert await followed(remote_server, worker_client, queue, followup, many=many) == []
    assert remote_server.row(followup["id"])["tenant_id"] == "acme"


@pytest.mark.parametrize("many", [True, False])
async def test_followups_stay_in_the_queues_of_the_key(remote_server, worker, queue, many):
    worker_client = await worker(queue, queues=[queue])
    for elsewhere in ({"queue": "billing"}, {}):
        followup = {"id": str(uuid4()), "kind": f"{queue}.next", "payload": {}, **elsewhere}
        [detail] = await followed(remote_server, worker_client, queue, followup, many=many)
        assert "followup_queues" in detail
        assert remote_server.row(followup["id"]) is None


async def test_a_definition_allows_followups_into_other_queues(remote_server, worker, queue):
    kind = f"{queue}.chop"
    trusted = await worker(queue, registered=False)
    await register(trusted, queue, definitions=[definition(kind, queue, followup_queues=["billing"])])
    worker_client = await worker(queue, queues=[queue])
    job_id = await remote_server.enqueue(kind, queue=queue)
    claim = await worker_client.claim(queue, kinds=[kind])
    followup = {"id": str(uuid4()), "kind": "invoice", "queue": "billing", "payload": {}}
    await worker_client.post(f"jobs/{job_id}/complete", token=claim["token"], followups=[followup])
    assert remote_server.row(followup["id"])["queue"] == "billing"


async def test_a_completion_that_is_repeated_after_it_landed_is_not_lost(remote_server, worker, queue):
    worker_client = await worker(queue, queues=[queue])
    job_id = await remote_server.enqueue("chop", queue=queue)
    claim = await worker_client.claim(queue)
    followup = {"id": str(uuid4()), "kind": "next", "queue": queue, "payload": {}}
    item = {"id": str(job_id), "token": claim["token"], "followups": [followup]}
    for _ in range(2):
        assert await worker_client.batch("jobs/complete", item) == {"lost": [], "rejected": []}


async def test_a_token_is_of_no_use_to_another_key(remote_server, worker, queue):
    one, other = await worker(queue), await worker(queue)
    job_id = await remote_server.enqueue("chop", queue=queue)
    token = (await one.claim(queue))["token"]
    held = {"id": str(job_id), "token": token}
    await other.post(f"jobs/{job_id}/complete", 409, token=token)
    assert (await other.batch("jobs/complete", held))["lost"] == [str(job_id)]
    assert (await other.batch("jobs/settle", {**held, "event": "fail"}))["lost"] == [str(job_id)]
    assert (await other.batch("jobs/progress", {**held, "percent": 99}))["lost"] == [str(job_id)]
    assert (await other.batch("heartbeat", held))["lost"] == [str(job_id)]
    await other.post("jobs/log", 204, worker_id=other.id, lines=[{**held, "text": "forged"}])
    row = remote_server.row(job_id)
    assert (row["status"], row["progress_percent"]) == ("running", None)
    assert remote_server.db.execute(
        "select count(*) from posthouse.log_lines where job_id = %s", (job_id,)
    ).fetchone() == (0,)
    await one.post(f"jobs/{job_id}/complete", token=token)
