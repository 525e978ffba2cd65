"""The table of worker keys in docs/security.md says what the server does."""

from __future__ import annotations

from uuid import uuid4

import pytest
import pytest_asyncio
from test_worker_api import WorkerClient
from test_worker_key_scope import COMMAND, definition, register, schedule, stored

from posthouse import testing
from support.doc_tables import table
from support.remote import RemoteServer

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPTIONS = {
    "no option": {},
    "`--queue`": {"queues": True},
    "`--tenant`": {"tenant": "acme"},
    "`--announce`": {"may_announce": True},
    "`--announce --queue`": {"may_announce": True, "queues": True},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote_server(server, tmp_path_factory):
    with testing.database(server) as database:
        async with RemoteServer.over(database, tmp_path_factory.mktemp("table")) as remote_server:
            yield remote_server


class Trial:
    """One key with its own queue, and what it tries."""

    def __init__(self, remote_server, worker_client, queue):
        self.remote_server, self.worker_client, self.queue = remote_server, worker_client, queue
        self.other = f"{queue}-other"

    async def announces(self, **code):
        answer = await self.worker_client.http.post(
            "register",
            json={
                "worker_id": self.worker_client.id,
                "name": "w",
                "queues": [self.queue],
                "kinds": ["chop"],
                **code,
            },
        )
        assert answer.status_code in {201, 422}, answer.text

    async def claims(self, queue, tenant):
        job = await self.remote_server.enqueue("chop", queue=queue, tenant=tenant)
        answer = await self.worker_client.http.post(
            "jobs/claim", json={"worker_id": self.worker_client.id, "queues": [queue], "kinds": ["chop"]}
        )
        claimed = answer.json()["jobs"] if answer.status_code == 200 else []
        return [item["id"] for item in claimed] == [str(job)]

    async def follows_up(self, **fields):
        job = await self.remote_server.enqueue("chop", queue=self.queue, tenant="acme")
        token = (await self.worker_client.claim(self.queue))["token"]
        followup = {"id": str(uuid4()), "kind": "chop", "queue": self.queue, "payload": {}, **fields}
        await self.worker_client.http.post(
            f"jobs/{job}/complete", json={"token": token, "followups": [followup]}
        )
        return self.remote_server.row(followup["id"])

    async def claim_elsewhere(self):
        return await self.claims(self.other, "acme")

    async def claim_of_others(self):
        return await self.claims(self.queue, "globex")

    async def report_for_others(self):
        holder = WorkerClient(self.remote_server, await self.remote_server.key(), str(uuid4()))
        await register(holder, self.queue)
        job = await self.remote_server.enqueue("chop", queue=self.queue, tenant="acme")
        token = (await holder.claim(self.queue))["token"]
        await self.worker_client.http.post(f"jobs/{job}/complete", json={"token": token})
        return self.remote_server.row(job)["status"] != "running"

    async def follow_up_elsewhere(self):
        return await self.follows_up(queue=self.other) is not None

    async def follow_up_of_others(self):
        row = await self.follows_up(tenant_id="globex")
        return row is not None and row["tenant_id"] == "globex"

    async def define_own(self):
        await self.announces(definitions=[definition(self.queue, self.queue)])
        return stored(self.remote_server, "definitions", self.queue) is not None

    async def define_elsewhere(self):
        await self.announces(definitions=[definition(self.other, self.other)])
        return stored(self.remote_server, "definitions", self.other) is not None

    async def limit_own(self):
        limit = {"name": self.queue, "kinds": [self.queue], "max_running": 1}
        await self.announces(definitions=[definition(self.queue, self.queue)], limits=[limit])
        return stored(self.remote_server, "limits", self.queue, "name") is not None

    async def limit_others(self):
        for selector in ({"kinds": ["foreign"]}, {"queues": ["x"]}, {"tenants": ["x"]}, {}):
            limit = {"name": self.other, "max_running": 0, **selector}
            await self.announces(definitions=[definition(self.queue, self.queue)], limits=[limit])
        return stored(self.remote_server, "limits", self.other, "name") is not None

    async def store_triggers(self):
        trigger = schedule(self.queue, f"{self.queue} schedule 1")
        await self.announces(definitions=[definition(self.queue, self.queue)], triggers=[trigger])
        return stored(self.remote_server, "triggers", self.queue, "definition_key") is not None

    async def store_command(self):
        kind = definition(self.queue, self.queue, runner="command", command=COMMAND)
        await self.announces(definitions=[kind])
        return stored(self.remote_server, "definitions", self.queue) is not None


TRIALS = {
    "claim jobs of queues that it does not name": Trial.claim_elsewhere,
    "claim jobs of other tenants": Trial.claim_of_others,
    "report on a job that another key claimed": Trial.report_for_others,
    "enqueue follow-ups into queues that it does not name": Trial.follow_up_elsewhere,
    "enqueue follow-ups into another tenant": Trial.follow_up_of_others,
    "store definitions of its queues": Trial.define_own,
    "store definitions of other queues": Trial.define_elsewhere,
    "store limits of its own kinds": Trial.limit_own,
    "store limits of other kinds, queues or tenants": Trial.limit_others,
    "store triggers": Trial.store_triggers,
    "store a command": Trial.store_command,
}


async def test_every_row_and_column_is_tried():
    documented = table("security.md", "worker key")
    assert [row["worker key"] for row in documented] == list(TRIALS)
    assert list(documented[0])[1:] == list(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("row", table("security.md", "worker key"), ids=lambda row: row["worker key"])
async def test_a_worker_key_can_do_what_the_table_says(remote_server, row, option):
    queue = f"q-{uuid4().hex[:8]}"
    scope = {"may_announce": False, **OPTIONS[option]}
    if scope.pop("queues", False):
        scope["queues"] = [queue]
    worker_client = WorkerClient(remote_server, await remote_server.key(**scope), str(uuid4()))
    await register(worker_client, queue)
    can = await TRIALS[row["worker key"]](Trial(remote_server, worker_client, queue))
    assert ("yes" if can else "no") == row[option]
