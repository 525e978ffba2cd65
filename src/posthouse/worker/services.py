"""The services that a worker provides to its jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from posthouse.core.outcome import Cancel
from posthouse.core.progress import decode_kept
from posthouse.core.request import Request
from posthouse.errors import LeaseLost, ServerUnavailable
from posthouse.settings import Settings
from posthouse.storage.connections import retry_pause
from posthouse.worker.backend import AWAY, Backend
from posthouse.worker.definitions import Marks, Rulebook
from posthouse.worker.job import Job
from posthouse.worker.log_writer import Tail
from posthouse.worker.progress import Reporter
from posthouse.worker.transactions import Commit, Plain, StepCommit

T = TypeVar("T")


class WorkerDesk:
    def __init__(self, backend: Backend, settings: Settings, rulebook: Rulebook) -> None:
        self.loop = asyncio.get_running_loop()
        self.payload_limit = settings.max_payload_bytes
        self.result_limit = settings.max_result_bytes
        self.log_level = log_threshold(settings.job_log_level)
        self._rulebook = rulebook
        self._notebook = backend.notebook()
        self._pools = backend.pools()
        self._shelf = backend.shelf()
        self._reporter = Reporter(self._notebook)
        self._tail = Tail(self._notebook, settings.job_log_bytes, rulebook.masked)
        self.parts: list[Callable[[], Awaitable[None]]] = [self._reporter.run, self._tail.run]
        """The loops that must run beside it."""

    async def close(self) -> None:
        await self._notebook.close()
        await self._pools.close()
        await self._shelf.close()

    async def report_progress(
        self, job: Job, percent: float | None, step: str | None, message: str | None
    ) -> None:
        texts = {"step": self._masked(job, step), "message": self._masked(job, message)}
        await self._reporter.report(job, {"percent": percent, **texts})

    async def report_part(self, job: Job, change: Mapping[str, Any]) -> None:
        texts = {name: self._masked(job, change.get(name)) for name in ("message", "error")}
        await self._reporter.report(job, {}, {**change, **texts})

    def _masked(self, job: Job, text: str | None) -> str | None:
        return None if text is None else self._rulebook.masked(job, text)

    async def declare_parts(
        self, job: Job, declarations: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Store parts and return all parts of the job, including those of earlier attempts."""
        for declaration in declarations[:-1]:
            job.noted().add({}, declaration)
        if declarations:
            await self._reporter.report(job, {}, declarations[-1], at_once=True)
        names = {declaration["name"] for declaration in declarations}

        async def declared() -> list[dict[str, Any]]:
            rows = await self._notebook.parts(job.id, job.token)
            if not names <= {row["name"] for row in rows}:  # not written yet
                raise ServerUnavailable("the parts of the job are not available yet")
            return rows

        rows = await self._patiently(job, declared)
        return [{name: row[name] for name in PART_FIELDS} for row in rows]

    async def steps_done(self, job: Job) -> list[str]:
        return await self._patiently(job, lambda: self._notebook.steps_done(job.id, job.token))

    async def find_step(self, job: Job, name: str) -> tuple[bool, Any]:
        """Return whether the step is done, and its result."""
        job.refuse_if_lost()
        notes = job.noted()
        if notes.steps is None:
            notes.steps = set() if job.is_first_attempt else set(await self.steps_done(job))
        if name not in notes.steps:
            return False, None
        text = await self._patiently(job, lambda: self._notebook.step_result(job.id, job.token, name))
        return True, decode_kept(text)

    async def keep_step(self, job: Job, name: str, result: str, seconds: float) -> None:
        """Store a step. Waits while Postgres is unreachable, unless the lease is lost meanwhile."""
        values = (job.id, job.token, self._notebook.lease_seconds, name, result, seconds, False)
        if await self._patiently(job, lambda: self._notebook.keep_step(values)) == "lost":
            job.note_lost()
            raise job.lost_error()
        self.note_step(job, name)

    async def upload(self, job: Job, name: str, path: str) -> dict[str, Any]:
        try:
            return await self._patiently(job, lambda: self._shelf.put(job.id, job.token, name, Path(path)))
        except LeaseLost:
            job.note_lost()
            raise

    async def download(self, job: Job, name: str, path: str, of: str | None) -> dict[str, Any]:
        other = None if of is None else UUID(of)
        try:
            return await self._patiently(
                job, lambda: self._shelf.get(job.id, job.token, name, Path(path), other)
            )
        except LeaseLost:
            job.note_lost()
            raise

    def note_step(self, job: Job, name: str) -> None:
        notes = job.noted()
        notes.steps = (notes.steps or set()) | {name}

    async def _patiently(self, job: Job, ask: Callable[[], Awaitable[T]]) -> T:
        tries = 0
        while True:
            job.refuse_if_lost()
            if job.reason is not None:  # a waiting thread cannot be interrupted
                raise Cancel("canceled while waiting for the worker")
            try:
                return await ask()
            except AWAY:
                await asyncio.sleep(retry_pause(tries))
                tries += 1

    def operators_marks(self, kind: str) -> Marks | None:
        return self._rulebook.operators_marks(kind)

    def admitted(self, request: Request) -> Request:
        return self._rulebook.admitted(request, self.payload_limit)

    def begin(self, job: Job) -> Plain:
        return Plain(job, self._pools)

    def begin_commit(self, job: Job) -> Commit:
        return Commit(job, self._pools, self.result_limit)

    def begin_step(self, job: Job, name: str) -> StepCommit:
        return StepCommit(job, self, self._pools, name, self._notebook.lease_seconds)

    def emit(self, job: Job, stream: str, level: str | None, text: str) -> None:
        self._tail.emit(job, stream, level, text)

    async def land(self, job: Job) -> None:
        """Flush the reports and log lines of a job before its outcome is written."""
        if not job.finished:
            await self._reporter.land(job)
            await self._tail.land(job)


PART_FIELDS = ("name", "status", "percent", "done", "total", "weight", "message", "result")


def log_threshold(name: str) -> int:
    """Return the number of a log level; ``off`` is above all of them."""
    return logging.getLevelNamesMapping().get(name.upper(), logging.CRITICAL + 1)
