"""Write the progress reports of jobs: a few times per second per job, all due reports in one statement."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from posthouse.errors import PosthouseError
from posthouse.storage.connect import retry_pause
from posthouse.worker.backend import AWAY, REFUSED, Notebook
from posthouse.worker.job import Job
from posthouse.worker.notes import Notes

_log = logging.getLogger("posthouse.worker")

INTERVAL = 0.25
MAX_BATCH = 1000
LANDING_SECONDS = 5.0


class Reporter:
    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._dirty: dict[Job, Notes] = {}
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._failures = 0

    async def report(
        self,
        job: Job,
        fields: Mapping[str, Any],
        part: Mapping[str, Any] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Report. Waits for the write if the job's report is due; otherwise returns and writes it later."""
        job.refuse_if_lost()
        notes = job.noted()
        notes.add(fields, part)
        self._dirty[job] = notes
        if at_once:
            notes.due = 0.0
        if notes.due <= time.monotonic():
            await self._landing(notes)
        elif len(self._dirty) == 1:
            self._woken.set()

    async def land(self, job: Job) -> None:
        """Flush the reports of a job that is about to finish, if Postgres is reachable in time."""
        if job in self._dirty:
            self._dirty[job].due = 0.0
        with suppress(TimeoutError, PosthouseError):  # a lost lease is detected when the outcome is written
            async with asyncio.timeout(LANDING_SECONDS):
                await self._idle.wait()  # the report being written may be put back
                while (notes := self._dirty.get(job)) is not None:
                    await self._landing(notes)
                    await self._idle.wait()

    async def run(self) -> None:
        """Write until canceled."""
        while True:
            wait = self._until_next()
            if wait is None or wait > 0:
                await self._pause(wait)
                continue
            now = time.monotonic()
            due = {job.hex_id: job for job, notes in self._dirty.items() if notes.due <= now}
            self._idle.clear()
            try:  # two attempts of one job, of which one has lost its lease, go in separate statements
                await self._write(list(due.values())[:MAX_BATCH])
            finally:
                self._idle.set()

    def _until_next(self) -> float | None:
        if not self._dirty:
            return None
        return min(notes.due for notes in self._dirty.values()) - time.monotonic()

    async def _pause(self, seconds: float | None) -> None:
        self._woken.clear()
        timer = None
        if seconds is not None:
            timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        await self._woken.wait()
        if timer is not None:
            timer.cancel()

    async def _landing(self, notes: Notes) -> None:
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        notes.waiters.append(landed)
        self._woken.set()
        await landed

    async def _write(self, jobs: Sequence[Job]) -> None:
        sent = time.monotonic()
        batch: list[tuple[Job, Notes, dict[str, Any], list[asyncio.Future[None]]]] = []
        for job in jobs:
            notes = self._dirty.pop(job)
            waiters, notes.waiters = notes.waiters, []
            notes.due = sent + INTERVAL
            batch.append((job, notes, notes.take(), waiters))
        try:
            reports = [{"id": job.hex_id, "token": job.hex_token, **report} for job, _, report, _ in batch]
            missed = await self._notebook.report(reports)
            self._failures = 0
        except AWAY:
            self._try_later(batch)
            return
        except REFUSED as error:
            await self._isolate(batch, error)
            return
        for job, notes, report, waiters in batch:
            verdict = missed.get(job.id)
            if verdict == "busy":  # the row is locked for a moment
                self._restore(job, notes, report, waiters)
            elif verdict == "lost":
                job.note_lost()
                notes.drop()
                _release(waiters, job.lost_error())
            else:
                job.expires = max(job.expires, sent + self._notebook.lease_seconds * 0.9)
                _release(waiters)

    def _try_later(self, batch: Sequence[tuple[Job, Notes, dict[str, Any], Any]]) -> None:
        """Put the reports back while Postgres is unreachable. Handlers do not wait: the heartbeat checks the
        lease.
        """
        pause = retry_pause(self._failures)
        self._failures += 1
        for job, notes, report, waiters in batch:
            self._restore(job, notes, report, [])
            notes.due = time.monotonic() + pause
            _release(waiters)

    def _restore(
        self, job: Job, notes: Notes, report: Mapping[str, Any], waiters: list[asyncio.Future[None]]
    ) -> None:
        notes.put_back(report)
        notes.waiters = waiters + notes.waiters
        notes.due = time.monotonic() + INTERVAL / 10
        self._dirty[job] = notes

    async def _isolate(
        self, batch: Sequence[tuple[Job, Notes, dict[str, Any], Any]], error: Exception
    ) -> None:
        """Find the report that Postgres rejects, and write the others."""
        if len(batch) > 1:
            for job, notes, report, waiters in batch:
                self._restore(job, notes, report, waiters)
                await self._write([job])
            return
        job, _, _, waiters = batch[0]
        _log.error("progress report cannot be stored job=%s: %s", job.id, error)
        _release(waiters, PosthouseError(f"the report cannot be stored: {error}"))


def _release(waiters: Iterable[asyncio.Future[None]], error: BaseException | None = None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
