"""A running server, worker and keeper for the browser tests, and jobs that wait for a test."""

from __future__ import annotations

import asyncio
import logging

import httpx
import psycopg

import posthouse
from posthouse.maintenance import Maintenance
from posthouse.settings import Settings
from support.server import RunningServer
from support.waiting import WAIT_SECONDS


class ConsoleServer(RunningServer):
    """A server with a worker, a keeper, and jobs that wait for a test."""

    def __init__(self, database):
        settings = Settings(
            database_url=database, heartbeat_seconds=0.5, lease_seconds=10.0, rescue_grace_seconds=0.0,
            drain_seconds=1.0,
        )  # fmt: skip
        self.app = posthouse.App(settings=settings)
        super().__init__(settings, {"support.console:app": self.app})
        self.gates = {}
        self._keys = {}

    async def __aenter__(self):
        jobs(self)
        register_job_page_jobs(self)
        await self.app.__aenter__()
        self.keeper = Maintenance(self.settings.database_url, self.settings)
        await self.keeper.start()
        self.worker = await self.app.worker()
        await self.worker.start()
        return await super().__aenter__()

    async def __aexit__(self, *error):
        for gate in self.gates.values():
            gate.set()
        await super().__aexit__(*error)
        await self.worker.stop()
        await self.keeper.stop()
        await self.app.close()

    def console_address(self):
        return self.process.login_link("admin", self.url)

    async def skip_undo_delay(self):
        """Start bulk changes that are still in their undo window."""
        address = self.settings.database_url
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
            await connection.execute("update posthouse.bulk_changes set starts_at = posthouse.now()")

    async def key(self, role, tenant=None):
        """Return one key per role and tenant, so that login rate limits are not reached."""
        if (role, tenant) not in self._keys:
            self._keys[role, tenant] = await super().key(role, tenant)
        return self._keys[role, tenant]

    async def cookie(self, role, tenant=None):
        """Log in and return the session cookie."""
        async with httpx.AsyncClient(base_url=self.url) as client:
            answer = await client.post("/api/v1/session", json={"credential": await self.key(role, tenant)})
            answer.raise_for_status()
            [(name, value)] = client.cookies.items()
        return {"name": name, "value": value, "url": self.url, "httpOnly": True, "sameSite": "Lax"}

    async def api(self, method, path, body=None, *, role="super-admin", tenant=None):
        """Send a request without the browser."""
        headers = {"Authorization": f"Bearer {await self.key(role, tenant)}"}
        async with httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=30) as client:
            answer = await client.request(method, path, json=body)
            answer.raise_for_status()
            return answer.json() if answer.content else None

    async def enqueue(self, kind, payload=None, *, tenant="default", **options):
        """Enqueue a job and return its id."""
        body = {"definition_key": kind, "payload": payload or {}, **options}
        return (await self.api("POST", f"/jobs?tenant={tenant}", body))["id"]

    async def until(self, job_id, *statuses):
        """Wait until the job has one of these statuses and return it."""
        async with asyncio.timeout(WAIT_SECONDS):
            while (job := await self.api("GET", f"/jobs/{job_id}"))["status"] not in statuses:
                await asyncio.sleep(0.05)
        return job

    async def until_triggered(self):
        """Wait until the worker has registered the trigger defined in code and return it."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := await self.api("GET", "/jobs/triggers?trigger_type=schedule&limit=200"))[
                "items"
            ]:
                await asyncio.sleep(0.05)
        return next(item for item in found["items"] if item["origin"] == "code")

    def gate(self, name):
        return self.gates.setdefault(name, asyncio.Event())


def jobs(console):
    app = console.app

    @app.job("demo.greet")
    async def greet(name: str = "world", times: int = 1) -> str:
        """Says hello."""
        return ", ".join([f"Hello {name}"] * times)

    @app.job("demo.wait", timeout="2m")
    async def wait(job: posthouse.Job, gate: str) -> dict:
        """Reports 50 %, then waits until the test opens the gate."""
        job.log.info("started waiting")
        await job.progress(50, step="halfway")
        async with job.part("first half") as part:
            await part.progress(40)
            await console.gate(gate).wait()
        job.log.info("done")
        return {"done": True}

    @app.job("demo.fail", max_attempts=1)
    async def fail(item: str, text: str = "the service is down") -> None:
        """Fails permanently on the first attempt."""
        raise ConnectionError(text)

    @app.job("demo.chain")
    async def chain(job: posthouse.Job, step: int = 1) -> str:
        """Enqueues a follow-up job for each of three steps."""
        if step < 3:
            job.enqueue(chain, step=step + 1)
        return f"finished step {step}"

    @app.job("demo.gated_failure", max_attempts=1)
    async def gated_failure(gate: str, text: str = "the gate is closed") -> None:
        """Fails until the test opens the gate."""
        if not console.gate(gate).is_set():
            raise ConnectionError(text)

    @app.job("demo.own_queue", queue="other")
    async def own_queue() -> None:
        """Has a separate queue that tests can pause."""

    chain.on_schedule("0 3 * * *", {"step": 3}, zone="Europe/Paris", label="Nightly chain")


def register_job_page_jobs(console):
    """Jobs for the tests of the job page."""
    app = console.app

    @app.job("demo.two_failures", max_attempts=2, retry=posthouse.Retry("10ms"))
    async def two_failures(job: posthouse.Job, service: str) -> None:
        """Fails twice with different errors."""
        job.log.info("request to %s, try %d", service, job.attempt)
        if job.attempt == 1:
            raise TimeoutError("no response")
        raise ConnectionError(f"{service} is down")

    @app.job("demo.limited", limits=[posthouse.Limit(running=1, name="demo-limit")])
    async def limited(gate: str) -> str:
        """Has a limit of one running job."""
        await console.gate(gate).wait()
        return "done"

    @app.job("demo.snooze")
    async def snooze(job: posthouse.Job, snoozes: int) -> str:
        """Snoozes as often as it is told to."""
        if job.snoozes < snoozes:
            raise posthouse.Snooze("10ms")
        return "done"

    @app.job("demo.log")
    async def log(job: posthouse.Job, lines: int, gate: str) -> None:
        """Writes many log lines, stores an artifact and waits until the test opens the gate."""
        for number in range(lines):
            job.log.log(logging.ERROR if number % 10 == 7 else logging.INFO, "line %d", number)
        await job.upload(b"report", "output/report.txt")
        await console.gate(gate).wait()
        job.log.info("the last line")
