"""The run of the crash demo: enqueue, kill workers and Postgres on the way, count."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from posthouse.client.client import Client
from posthouse.demo.crash.jobs import effect, statement
from posthouse.demo.crash.report import DemoReport, Fault
from posthouse.demo.stage import in_thread, stop_processes
from posthouse.errors import DatabaseUnavailable, PosthouseError, WaitTimeout
from posthouse.settings import ENV_PREFIX, load_settings
from posthouse.storage.connections import ReconnectingConnection, connect_sync
from posthouse.storage.migrations import migrate

WORKER = "posthouse.demo.crash.worker"
LOG_TAIL = 2000


class Fleet:
    """Worker processes. A killed worker is replaced, as a process supervisor would do."""

    def __init__(self, url: str, folder: Path, *, concurrency: int) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
        chosen = {"DATABASE_URL": url, "CONCURRENCY": str(concurrency)}
        self._environment = {**kept, **{f"{ENV_PREFIX}{name}": value for name, value in chosen.items()}}
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0

    @property
    def pids(self) -> list[int]:
        return list(self._workers)

    def start(self) -> int:
        """Start one more worker; return its process id."""
        self._started += 1
        with self._log(self._started).open("wb") as log:
            # Started in the folder, so that no posthouse.toml of the user applies.
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", WORKER],
                cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C is for the demo, which stops its workers
            )  # fmt: skip
        self._workers[process.pid] = process
        return process.pid

    def kill(self, pid: int) -> None:
        """Kill a worker with SIGKILL, and start another in its place."""
        process = self._workers.pop(pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.start()

    def check(self) -> None:
        """Raise if a worker ended by itself."""
        for process in self._workers.values():
            if process.poll() is not None:
                log = self._log(self._started).read_text(errors="replace")
                raise PosthouseError(
                    f"a worker of the demo stopped with exit code {process.returncode}; the end of its log:\n"
                    f"{log[-LOG_TAIL:]}"
                )

    def stop(self) -> None:
        stop_processes(self._workers.values())
        self._workers.clear()

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"


if TYPE_CHECKING:
    from posthouse.storage.embedded import EmbeddedPostgres

STOP_SECONDS = 30.0
SETTINGS = {"track_commit_timestamp": "on"}
"""Pauses are measured between commits."""


class Postgres:
    """An embedded Postgres inside a temporary folder."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o711)  # started by root, Postgres runs as another user, who must reach its data
        self._data_dir = folder / "data"
        self._handles: list[EmbeddedPostgres] = []

    def start(self, schema: str) -> str:
        """Create and migrate the database; return its URL."""
        url = self._attach()
        with connect_sync(url, "demo") as connection:
            migrate(connection)
            connection.execute(schema)
        return url

    def crash(self) -> None:
        """Stop Postgres as `pg_ctl stop -m immediate` does: the next start has to recover."""
        from posthouse.storage.embedded.layout import open_layout  # noqa: PLC0415 - an extra
        from posthouse.storage.embedded.locks import attempts  # noqa: PLC0415
        from posthouse.storage.embedded.process import is_alive  # noqa: PLC0415
        from posthouse.storage.embedded.server import identify  # noqa: PLC0415

        layout = open_layout(self._data_dir)
        is_signaled = False
        for _ in attempts(STOP_SECONDS):
            if not is_alive(layout):
                return
            if not is_signaled and (answer := identify(layout)):
                os.kill(answer.postmaster_pid, signal.SIGQUIT)
                is_signaled = True
        raise DatabaseUnavailable(f"Postgres did not stop within {STOP_SECONDS:g} s of an immediate shutdown")

    def start_again(self) -> None:
        self._attach()

    def close(self) -> None:
        while self._handles:
            self._handles.pop().close()

    def _attach(self) -> str:
        from posthouse.storage.embedded import attach_server  # noqa: PLC0415 - an extra

        handle = attach_server(self._data_dir, settings=SETTINGS)
        self._handles.append(handle)
        return handle.url


WORKERS = 2
CONCURRENCY = 8
WORK_SECONDS = 6.0
"""How long the jobs take in all, without faults."""
MAX_JOB_SECONDS = 0.5
LOOK_SECONDS = 0.1
DEADLINE_SECONDS = 120.0


async def run(jobs: int, show: Callable[[DemoReport], None]) -> DemoReport:
    """Run the demo in a temporary folder; ``show`` is called whenever the report has changed."""
    report = DemoReport(jobs)
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
        self,
        report: DemoReport,
        postgres: Postgres,
        url: str,
        folder: Path,
        show: Callable[[DemoReport], None],
    ) -> None:
        self._report = report
        self._postgres = postgres
        self._marker = folder / "in-transaction"
        self._show = show
        self._fleet = Fleet(url, folder, concurrency=CONCURRENCY)
        self._client = Client(settings=load_settings(database_url=url))
        self._connection = ReconnectingConnection(url, "demo")
        self._seconds = min(MAX_JOB_SECONDS, WORK_SECONDS * WORKERS * CONCURRENCY / report.jobs)
        self._at_work: set[int] = set()
        self._enqueued = 0
        self._started = time.monotonic()

    async def go(self) -> None:
        try:
            await self._go()
        finally:
            await in_thread(self._fleet.stop)
            await self._client.close()
            await self._connection.close()

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
        """Return whether all workers, including replacements of killed ones, have registered."""
        return self._at_work.issuperset(self._fleet.pids)

    async def _enqueue_to(self, share: float) -> None:
        """Enqueue jobs up to this share of all jobs. Enqueued in parts, so that each fault hits a busy queue.

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
                await self._check_progress()
            self._tell()
            if time.monotonic() > end:
                raise WaitTimeout(f"the demo did not finish within {DEADLINE_SECONDS:g} s: {self._report}")

    async def _check_progress(self) -> None:
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

        return await self._connection.run(read)

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
