"""The run of the crash demo: enqueue, inject faults on the way, count."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from posthouse.client.client import Client
from posthouse.demo.crash.fleet import Fleet
from posthouse.demo.crash.jobs import effect, statement
from posthouse.demo.crash.postgres import Postgres
from posthouse.demo.crash.report import Fault, Report
from posthouse.demo.processes import in_thread
from posthouse.errors import PosthouseError, WaitTimeout
from posthouse.settings import load_settings
from posthouse.storage.connect import Line

WORKERS = 2
CONCURRENCY = 8
WORK_SECONDS = 6.0
"""How long the jobs take in all, without faults."""
LONGEST_JOB = 0.5
LOOK_SECONDS = 0.1
DEADLINE_SECONDS = 120.0


async def run(jobs: int, show: Callable[[Report], None]) -> Report:
    """Run the demo in a temporary folder; ``show`` is called whenever the report has changed."""
    report = Report(jobs)
    with tempfile.TemporaryDirectory(prefix="posthouse-crash-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        postgres = Postgres(folder)
        try:
            url = await in_thread(postgres.start, statement("schema"))
            await _Run(report, postgres, url, folder, show).go()
        finally:
            await in_thread(postgres.close)
    return report


class _Run:
    def __init__(
        self, report: Report, postgres: Postgres, url: str, folder: Path, show: Callable[[Report], None]
    ) -> None:
        self._report = report
        self._postgres = postgres
        self._marker = folder / "in-transaction"
        self._show = show
        self._fleet = Fleet(url, folder, concurrency=CONCURRENCY)
        self._client = Client(settings=load_settings(database_url=url))
        self._line = Line(url, "demo")
        self._seconds = min(LONGEST_JOB, WORK_SECONDS * WORKERS * CONCURRENCY / report.jobs)
        self._at_work: set[int] = set()
        self._enqueued = 0
        self._started = time.monotonic()

    async def go(self) -> None:
        try:
            await self._go()
        finally:
            await in_thread(self._fleet.stop)
            await self._client.close()
            await self._line.close()

    async def _go(self) -> None:
        for _ in range(WORKERS):
            self._fleet.start()
        await self._until(self._all_at_work)
        self._started = time.monotonic()
        await self._enqueue_to(0.4)
        await self._until(lambda: self._report.effects >= self._report.jobs // 8)
        await self._kill_worker()
        await self._enqueue_to(0.7)
        await self._until(self._all_at_work)
        await self._kill_in_transaction()
        await self._enqueue_to(0.9)
        await self._until(self._all_at_work)
        await self._enqueue_to(1.0)
        await self._until(lambda: self._report.statuses.get("running", 0) > 0 or self._report.done)
        await self._restart_postgres()
        await self._until(lambda: self._report.done)

    def _all_at_work(self) -> bool:
        """Whether the workers that replaced killed ones have announced themselves."""
        return self._at_work.issuperset(self._fleet.pids)

    async def _enqueue_to(self, share: float) -> None:
        """Enqueue jobs up to this share of all. In portions, so that each fault hits a busy queue.

        The last job is left for the worker that is killed in its transaction.
        """
        before, self._enqueued = self._enqueued, int(share * (self._report.jobs - 1))
        numbers = range(before + 1, self._enqueued + 1)
        await self._client.enqueue_many([self._request(number) for number in numbers])

    def _request(self, number: int, **more: Any) -> Any:
        urgent = effect.using(priority="urgent") if more else effect
        return urgent.request({"number": number, "seconds": self._seconds, **more})

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Watch until the condition holds; while Postgres is down the last counts stay."""
        end = self._started + DEADLINE_SECONDS
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)
            self._fleet.check()
            with suppress(psycopg.OperationalError):
                await self._look()
            self._tell()
            if time.monotonic() > end:
                raise WaitTimeout(f"the demo did not finish within {DEADLINE_SECONDS:g} s: {self._report}")

    async def _look(self) -> None:
        effects, different, pause, statuses, interrupted = (await self._rows("state"))[0]
        self._report.effects, self._report.doubled = effects, effects - different
        self._report.longest_pause = pause
        self._report.statuses = statuses
        self._report.interrupted = interrupted
        self._at_work = {pid for (pid,) in await self._rows("worker_pids")}

    async def _rows(self, name: str) -> list[Any]:
        async def read(connection: Any) -> list[Any]:
            rows: list[Any] = await (await connection.execute(statement(name))).fetchall()
            return rows

        return await self._line.run(read)

    def _tell(self) -> None:
        self._report.seconds = time.monotonic() - self._started
        self._show(self._report)

    def _note(self, what: str) -> None:
        self._report.faults.append(Fault(time.monotonic() - self._started, what))
        self._tell()

    async def _kill_worker(self) -> None:
        pid = self._fleet.pids[0]
        self._fleet.kill(pid)
        self._note(f"killed worker {pid} with SIGKILL")

    async def _kill_in_transaction(self) -> None:
        await self._client.enqueue_many([self._request(self._report.jobs, hold=str(self._marker))])
        await self._until(self._marker.exists)
        pid = int(self._marker.read_text())
        if pid not in self._fleet.pids:
            raise PosthouseError(f"the process {pid} that holds a transaction is not a worker of this demo")
        self._fleet.kill(pid)
        self._note(f"killed worker {pid} between its write and its commit")

    async def _restart_postgres(self) -> None:
        self._report.postgres = "stopped"
        await in_thread(self._postgres.crash)
        self._note("stopped Postgres with -m immediate and started it again")
        await in_thread(self._postgres.start_again)
        self._report.postgres = "running"
        self._tell()
