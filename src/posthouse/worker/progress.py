"""Progress of jobs and their parts.

Reports are written a few times per second per job, all due reports in one statement.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from posthouse.core.progress import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    PENDING,
    SKIPPED,
    checked_count,
    checked_name,
    checked_percent,
    checked_weight,
    clipped,
    decode_kept,
    encode_kept,
)
from posthouse.errors import PosthouseError
from posthouse.waiting import Backoff
from posthouse.worker.backend import REJECTED, UNREACHABLE, AttemptStore, LeaseTiming

if TYPE_CHECKING:
    from posthouse.worker.attempt import Attempt


class PendingReport:
    """The report of a job that is not written yet. Later reports are merged into it."""

    __slots__ = ("_fields", "_own_percent", "_parts", "due", "is_lease_lost", "steps", "waiters")

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._parts: dict[str, dict[str, Any]] = {}
        self._own_percent = False
        self.due = 0.0
        """When the report may be written, on the monotonic clock."""
        self.waiters: list[asyncio.Future[None]] = []
        self.is_lease_lost = False
        self.steps: set[str] | None = None
        """Names of the finished steps; None: not loaded yet."""

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._fields or self._parts)

    def add(self, fields: Mapping[str, Any], part: Mapping[str, Any] | None = None) -> None:
        self._fields.update({name: value for name, value in fields.items() if value is not None})
        self._own_percent = self._own_percent or fields.get("percent") is not None
        if part is not None:
            name = part["name"]
            self._parts[name] = _folded(self._parts.get(name, {}), part)
        if not self:
            self._fields["step"] = None  # no change, but an empty report extends the lease

    def take(self) -> dict[str, Any]:
        """Return the pending report, as posthouse.report expects it."""
        report: dict[str, Any] = dict(self._fields)
        if self._parts:
            report["parts"] = list(self._parts.values())
            report["derive"] = not self._own_percent
        self.drop()
        return report

    def restore(self, report: Mapping[str, Any]) -> None:
        """Restore a report that could not be written. Newer values take precedence."""
        older = {name: value for name, value in report.items() if name not in {"parts", "derive"}}
        self._fields = {**older, **self._fields}
        for part in report.get("parts", ()):
            self._parts[part["name"]] = _folded(part, self._parts.get(part["name"], {}))

    def drop(self) -> None:
        self._fields, self._parts = {}, {}


def _folded(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in newer.items() if value is not None}
    if not newer.get("restart"):
        return {**older, **said}
    return {**{name: older[name] for name in ("total", "weight") if name in older}, **said}


_log = logging.getLogger("posthouse.worker")

INTERVAL = 0.25
MAX_BATCH = 1000
FLUSH_TIMEOUT_SECONDS = 5.0


class ProgressWriter:
    """The background writer of progress reports."""

    def __init__(self, store: AttemptStore) -> None:
        self._store = store
        self._dirty: dict[Attempt, PendingReport] = {}
        self._wakeup = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._backoff = Backoff()

    async def report(
        self,
        attempt: Attempt,
        fields: Mapping[str, Any],
        part: Mapping[str, Any] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Add to the job's report. Wait for the write if the report is due; otherwise it is written later."""
        attempt.ensure_lease_held()
        notes = attempt.get_pending_report()
        notes.add(fields, part)
        self._dirty[attempt] = notes
        if at_once:
            notes.due = 0.0
        if notes.due <= time.monotonic():
            await self._wait_until_written(notes)
        elif len(self._dirty) == 1:
            self._wakeup.set()

    async def flush(self, attempt: Attempt) -> None:
        """Write the report of a job that is about to finish, if Postgres is reachable in time."""
        if attempt in self._dirty:
            self._dirty[attempt].due = 0.0
        with suppress(TimeoutError, PosthouseError):  # a lost lease is detected when the outcome is written
            async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                await self._idle.wait()  # a failed write restores the report
                while (notes := self._dirty.get(attempt)) is not None:
                    await self._wait_until_written(notes)
                    await self._idle.wait()

    async def run(self) -> None:
        """Write until canceled."""
        while True:
            wait = self._until_next()
            if wait is None or wait > 0:
                await self._pause(wait)
                continue
            now = time.monotonic()
            due = {attempt.hex_id: attempt for attempt, notes in self._dirty.items() if notes.due <= now}
            self._idle.clear()
            try:  # two attempts of one job, one of which has lost its lease, need separate statements
                await self._write(list(due.values())[:MAX_BATCH])
            finally:
                self._idle.set()

    def _until_next(self) -> float | None:
        if not self._dirty:
            return None
        return min(notes.due for notes in self._dirty.values()) - time.monotonic()

    async def _pause(self, seconds: float | None) -> None:
        self._wakeup.clear()
        timer = None
        if seconds is not None:
            timer = asyncio.get_running_loop().call_later(seconds, self._wakeup.set)
        await self._wakeup.wait()
        if timer is not None:
            timer.cancel()

    async def _wait_until_written(self, notes: PendingReport) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        notes.waiters.append(written)
        self._wakeup.set()
        await written

    async def _write(self, attempts: Sequence[Attempt]) -> None:
        sent = time.monotonic()
        batch: list[tuple[Attempt, PendingReport, dict[str, Any], list[asyncio.Future[None]]]] = []
        for attempt in attempts:
            notes = self._dirty.pop(attempt)
            waiters, notes.waiters = notes.waiters, []
            notes.due = sent + INTERVAL
            batch.append((attempt, notes, notes.take(), waiters))
        try:
            reports = [
                {"id": attempt.hex_id, "token": attempt.hex_token, **report}
                for attempt, _, report, _ in batch
            ]
            missed = await self._store.report(reports)
            self._backoff.reset()
        except UNREACHABLE:
            self._reschedule(batch)
            return
        except REJECTED as error:
            await self._isolate(batch, error)
            return
        for attempt, notes, report, waiters in batch:
            verdict = missed.get(attempt.id)
            if verdict == "busy":  # the row is locked for a moment
                self._restore(attempt, notes, report, waiters)
            elif verdict == "lost":
                attempt.mark_lease_lost()
                notes.drop()
                _release(waiters, attempt.lease_lost_error())
            else:
                attempt.lease_expires_at = max(
                    attempt.lease_expires_at, LeaseTiming(self._store.lease_seconds).expires(sent)
                )
                _release(waiters)

    def _reschedule(self, batch: Sequence[tuple[Attempt, PendingReport, dict[str, Any], Any]]) -> None:
        """Restore the reports while Postgres is unreachable.

        Handlers do not wait, because the heartbeat checks the lease.
        """
        pause = self._backoff.next()
        for attempt, notes, report, waiters in batch:
            self._restore(attempt, notes, report, [])
            notes.due = time.monotonic() + pause
            _release(waiters)

    def _restore(
        self,
        attempt: Attempt,
        notes: PendingReport,
        report: Mapping[str, Any],
        waiters: list[asyncio.Future[None]],
    ) -> None:
        notes.restore(report)
        notes.waiters = waiters + notes.waiters
        notes.due = time.monotonic() + INTERVAL / 10
        self._dirty[attempt] = notes

    async def _isolate(
        self, batch: Sequence[tuple[Attempt, PendingReport, dict[str, Any], Any]], error: Exception
    ) -> None:
        """Find the report that Postgres rejects, and write the others."""
        if len(batch) > 1:
            for attempt, notes, report, waiters in batch:
                self._restore(attempt, notes, report, waiters)
                await self._write([attempt])
            return
        attempt, _, _, waiters = batch[0]
        _log.error("progress report cannot be stored job=%s: %s", attempt.id, error)
        _release(waiters, PosthouseError(f"the report cannot be stored: {error}"))


def _release(waiters: Iterable[asyncio.Future[None]], error: BaseException | None = None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)


RESULT_LIMIT = 65_536


class Part:
    """A named part of a job, with its own status and progress. Created by ``job.part()`` and ``job.parts()``.

    Await the reports in an async handler; in a thread handler call them without ``await``.

    Used as a context manager, the part is started when the block is entered, completed when it ends, and
    failed when it raises: ``async with job.part("720p") as part:``, or ``with`` in a thread handler.
    """

    def __init__(
        self, attempt: Attempt, name: str, total: int | None = None, weight: float | None = None
    ) -> None:
        self._attempt = attempt
        self.name = checked_name("part", name)
        self.total = checked_count("total", total)
        self.weight = checked_weight(weight)
        self.status: str = PENDING
        """``pending``, ``in_progress``, ``completed``, ``failed`` or ``skipped``, as known to this attempt.
        """
        self.percent = 0.0
        self.done: int | None = None
        self.message: str | None = None
        self.result: Any = None

    def __repr__(self) -> str:
        return f"<Part {self.name} {self.status} {self.percent:.0f} %>"

    @property
    def ended(self) -> bool:
        """Whether the part is completed or skipped, in this or an earlier attempt."""
        return self.status in {COMPLETED, SKIPPED}

    def start(self, message: str | None = None) -> Awaitable[None]:
        """Report that work on the part has started. Progress of an earlier attempt is reset."""
        self.percent = 0.0
        self.done = 0 if self.total is not None else None
        return self._tell(IN_PROGRESS, restart=True, percent=0.0, done=self.done, message=message)

    def progress(
        self, percent: float | None = None, *, done: int | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress: a percentage, or ``done``, the number of finished units out of ``total``."""
        percent = checked_percent(percent)
        done = checked_count("done", done)
        if done is not None:
            self.done = done
            if percent is None and self.total:
                percent = min(100.0, 100.0 * done / self.total)
        if percent is not None:
            self.percent = percent
        return self._tell(IN_PROGRESS, percent=percent, done=done, message=message)

    def advance(self, by: int = 1, *, message: str | None = None) -> Awaitable[None]:
        """Report that ``by`` more units of ``total`` are done."""
        return self.progress(done=(self.done or 0) + by, message=message)

    def complete(self, result: Any = None, *, message: str | None = None) -> Awaitable[None]:
        """Report that the part is complete. ``result`` is stored with it as JSON (at most 64 KiB)."""
        kept = encode_kept(f"part {self.name!r}", result, RESULT_LIMIT)
        self.percent, self.result = 100.0, decode_kept(kept)
        return self._tell(COMPLETED, done=self.total, message=message, result=self.result)

    def fail(self, error: object) -> Awaitable[None]:
        """Report that the part has failed. This does not fail the job; the handler decides that."""
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        return self._tell(FAILED, error=clipped(text))

    def skip(self, reason: str | None = None) -> Awaitable[None]:
        """Report that the part does not apply. Skipped parts do not count towards the job's progress."""
        return self._tell(SKIPPED, message=reason)

    def _tell(self, status: str, *, message: str | None = None, **changes: Any) -> Awaitable[None]:
        self.status = status
        self.message = clipped(message) if message is not None else self.message
        attempt = self._attempt
        attempt.has_reports = True
        change = {**self.declaration(), "status": status, "message": clipped(message), **changes}
        work = attempt.services.report_part(attempt, change)
        return attempt.run_in_loop(work)  # type: ignore[no-any-return]

    def declaration(self) -> dict[str, Any]:
        return {"name": self.name, "total": self.total, "weight": self.weight}

    def recall(self, row: Mapping[str, Any]) -> Self:
        """Take over the stored state of the part."""
        for field in ("status", "percent", "done", "total", "weight", "message", "result"):
            setattr(self, field, row[field])
        return self

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = self._ending(error)
        if ending is not None:
            await ending

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending(error)

    def _ending(self, error: BaseException | None) -> Awaitable[None] | None:
        """Return the report for the end of the block.

        Returns None if the handler has already reported the end of the part, or if the job itself was
        stopped.
        """
        if error is None:
            return self.complete() if self.status == IN_PROGRESS else None
        return self.fail(error) if isinstance(error, Exception) and not self._attempt.is_lease_lost else None


async def declare_parts(attempt: Attempt, parts: list[Part]) -> list[Part]:
    """Declare parts and return them with their stored state; without parts, return all parts of the job."""
    attempt.has_reports = True
    rows = await attempt.services.declare_parts(attempt, [part.declaration() for part in parts])
    if not parts:
        return [Part(attempt, row["name"]).recall(row) for row in rows]
    by_name = {row["name"]: row for row in rows}
    return [part.recall(by_name[part.name]) for part in parts]
