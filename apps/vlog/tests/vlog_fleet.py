"""Workers that are a few calls to /api/worker, and time that passes for all parts of the system."""

from __future__ import annotations

import asyncio

import httpx
import psycopg
from vlog_kit import SECRET

BEAT_SECONDS = 30
CHECK_SECONDS = 60
OFFLINE_SECONDS = 5 * 60
CLAIM_SECONDS = 30 * 60
GRACE_SECONDS = 2 * 60


class WorkerClient:
    """A worker that stores no tokens."""

    def __init__(self, http, worker_id):
        self.http = http
        self.id = worker_id

    async def ask(self, path, expected=200, /, **body):
        answer = await self.http.post(path, json=body)
        assert answer.status_code == expected, answer.text
        return answer.json()

    async def claim(self):
        return (await self.ask("claim"))["job"]

    async def beat(self):
        return await self.ask("heartbeat", status="idle")

    async def report(self, job, expected=200, /, **progress):
        return await self.ask("progress", expected, job_id=job["job_id"], **progress)

    async def done(self, job):
        return await self.ask("complete", job_id=job["job_id"])

    async def fail(self, job, **more):
        return await self.ask("fail", job_id=job["job_id"], error_message="no codec", **more)


class Fleet:
    """The workers, the API server and the keeper, at the intervals that they have by default."""

    def __init__(self, running_app, clock, db):
        self.running_app = running_app
        self.clock = clock
        self._db = db
        self.server_is_up = True
        self._clients = []

    async def register_worker(self, name="hand", **capabilities):
        http = httpx.AsyncClient(base_url=f"{self.running_app.url}/api/worker/", timeout=30)
        self._clients.append(http)
        new = {"worker_name": name, "capabilities": capabilities}
        new |= {"queues": ["vlog"], "kinds": ["vlog.transcode"]}
        answer = await http.post("register", json=new, headers={"X-Admin-Secret": SECRET})
        assert answer.status_code == 201, answer.text
        known = answer.json()
        assert (known["heartbeat_seconds"], known["claim_seconds"]) == (BEAT_SECONDS, CLAIM_SECONDS)
        http.headers["Authorization"] = f"Bearer {known['api_key']}"
        return WorkerClient(http, known["worker_id"])

    async def wait(self, seconds, *beating):
        """Let time pass: the server and these workers send heartbeats, and the keeper checks each minute."""
        passed = 0
        while passed < seconds:
            step = min(BEAT_SECONDS, seconds - passed)
            passed += step
            await self._advance(step)
            if step == BEAT_SECONDS:
                await asyncio.gather(*(worker_client.beat() for worker_client in beating))
            if passed % CHECK_SECONDS == 0:
                await self.running_app.run_keeper_once()

    async def check(self):
        await self.running_app.run_keeper_once()

    async def _advance(self, seconds):
        await self.clock.advance(seconds)
        if self.server_is_up:
            await self.server_beat()

    async def server_beat(self):
        await self._db.execute("update posthouse.servers set heartbeat_at = posthouse.now()")

    async def stop_server(self):
        await self.running_app.stop()
        self.server_is_up = False

    async def start_server(self):
        await self.running_app.start()
        await self.running_app.until(
            lambda: self.running_app.rows("select from posthouse.servers"), "the heartbeat"
        )
        self.server_is_up = True

    def status(self, worker_client):
        """The status of a worker as operators see it."""
        (row,) = self.running_app.rows(
            "select posthouse.worker_status(w, (select count(*) from posthouse.running as r "
            "where r.worker_id = w.id), null) as status from posthouse.workers as w where w.id = %s",
            worker_client.id,
        )
        return row["status"]

    def locked(self, statement, *parameters):
        """A connection that has done this and not committed."""
        return _Locked(self.running_app, statement, parameters)

    async def close(self):
        await asyncio.gather(*(http.aclose() for http in self._clients))


class _Locked:
    def __init__(self, running_app, statement, parameters):
        self._product = running_app
        self._statement = statement
        self._parameters = parameters

    async def __aenter__(self):
        self._connection = await psycopg.AsyncConnection.connect(self._product.settings.database_url)
        await self._connection.execute(self._statement, self._parameters)
        return self._connection

    async def __aexit__(self, *_):
        await self._connection.close()
