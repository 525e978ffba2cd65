"""The job object that a handler receives."""

from __future__ import annotations

import asyncio
import functools
import json
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload
from uuid import UUID

from posthouse.core.ids import new_id
from posthouse.core.progress import checked_name, checked_percent, clipped
from posthouse.core.request import EnqueueOptions, Request
from posthouse.errors import InvalidJob, InvalidReport, LeaseLost
from posthouse.storage.claimed import moment
from posthouse.storage.leases import ClaimedRow
from posthouse.tracing import traced
from posthouse.worker.artifacts import download, upload
from posthouse.worker.log_writer import JobLog
from posthouse.worker.progress import Notes, Part
from posthouse.worker.transactions import Steps

if TYPE_CHECKING:
    from posthouse.worker.transactions import Commit, Plain, StepCommit

HEARING_SECONDS = 0.5
"""How long a handler may continue after its lease was lost: its next call on the job raises LeaseLost."""
STREAMS = ("stdout", "stderr", "log")


class Named(Protocol):
    """An object that can be enqueued by name, such as a decorated handler."""

    @property
    def kind(self) -> str: ...
    def request(self, arguments: Mapping[str, Any], options: EnqueueOptions) -> Request: ...


class Desk(Protocol):
    """The services that the worker provides to a job."""

    loop: asyncio.AbstractEventLoop
    payload_limit: int
    result_limit: int
    log_level: int

    async def report_progress(
        self, job: Job, percent: float | None, step: str | None, message: str | None
    ) -> None: ...
    async def report_part(self, job: Job, change: Mapping[str, Any]) -> None: ...
    async def declare_parts(
        self, job: Job, declarations: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]: ...
    async def steps_done(self, job: Job) -> list[str]: ...
    async def find_step(self, job: Job, name: str) -> tuple[bool, Any]: ...
    async def keep_step(self, job: Job, name: str, result: str, seconds: float) -> None: ...
    def note_step(self, job: Job, name: str) -> None: ...
    async def upload(self, job: Job, name: str, path: str) -> dict[str, Any]: ...
    async def download(self, job: Job, name: str, path: str, of: str | None) -> dict[str, Any]: ...
    async def land(self, job: Job) -> None: ...
    def emit(self, job: Job, stream: str, level: str | None, text: str) -> None: ...
    def admitted(self, request: Request) -> Request: ...
    def operators_marks(self, kind: str) -> tuple[str, tuple[str, ...]] | None: ...
    def begin(self, job: Job) -> Plain: ...
    def begin_commit(self, job: Job) -> Commit: ...
    def begin_step(self, job: Job, name: str) -> StepCommit: ...


class Job:
    """One attempt of a job: the first argument of a handler, if it is named ``job`` or annotated ``Job``.

    Methods marked "await in an async handler" are plain calls in a thread handler.
    """

    __slots__ = (
        "_canceling", "_claimed_at", "_desk", "_followups", "_payload", "_row", "_steps", "_token",
        "committing", "deadline", "expires", "finished", "hex_id", "hex_token", "notes", "output", "reason",
        "result", "task", "told",
    )  # fmt: skip

    def __init__(self, row: ClaimedRow, token: UUID, hex_token: str, claimed_at: float, desk: Desk) -> None:
        self._row = row
        self._token = token
        self._desk = desk
        self._claimed_at = claimed_at
        self._payload: dict[str, Any] | None = None
        self._followups: list[str] | None = None
        self._canceling = False
        self.hex_id: str = row[0].hex()
        self.hex_token = hex_token
        self.result: Any = None
        """Stored with the completion if the handler uses ``commit()``."""
        self.task: asyncio.Task[None] | None = None
        self.reason: BaseException | None = None  # why the worker stops the attempt
        self.notes: Notes | None = None  # reports of the handler; internal to the worker
        self.output: dict[str, Any] | None = None  # output of a command, stored with the attempt
        self.told = False  # whether the handler has reported or logged anything
        self._steps: Steps | None = None
        self.deadline: float | None = None  # of the timeout, on the monotonic clock
        self.expires = 0.0  # expiry of the lease, on the monotonic clock
        self.finished = False
        self.committing = False  # a heartbeat that finds no lease may have met this commit

    def __repr__(self) -> str:
        return f"<Job {self.kind} {self.id} attempt {self.attempt}/{self.max_attempts}>"

    @property
    def id(self) -> UUID:
        """Id of the job."""
        return UUID(bytes=self._row[0])

    @property
    def row(self) -> ClaimedRow:
        """The row as it was claimed, for a process that runs the handler."""
        return self._row

    @property
    def claimed_at(self) -> float:
        return self._claimed_at

    @property
    def token(self) -> UUID:
        return self._token

    @property
    def kind(self) -> str:
        """Name of the job kind."""
        return self._row[1]  # type: ignore[no-any-return]

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self._row[2]  # type: ignore[no-any-return]

    @property
    def tenant(self) -> str:
        """Tenant that owns the job."""
        return self._row[3]  # type: ignore[no-any-return]

    @property
    def payload_text(self) -> str:
        return self._row[4]  # type: ignore[no-any-return]

    @property
    def payload(self) -> dict[str, Any]:
        """Payload of the job, as it was enqueued."""
        if self._payload is None:
            self._payload = json.loads(self._row[4])
        return self._payload

    @property
    def attempt(self) -> int:
        """Number of this attempt; the first is 1."""
        return self._row[5]  # type: ignore[no-any-return]

    @property
    def max_attempts(self) -> int:
        """Maximum number of attempts."""
        return self._row[6]  # type: ignore[no-any-return]

    @property
    def priority(self) -> int:
        """Priority of the job; lower numbers run first."""
        return self._row[7]  # type: ignore[no-any-return]

    @property
    def lane(self) -> int:
        return self._row[8]  # type: ignore[no-any-return]

    @property
    def position(self) -> int:
        return self._row[9]  # type: ignore[no-any-return]

    @property
    def crashes(self) -> int:
        """How often a worker, or the process that ran the handler, died while running this job."""
        return self._row[10]  # type: ignore[no-any-return]

    @property
    def snoozes(self) -> int:
        """How often the job was snoozed."""
        return self._row[11]  # type: ignore[no-any-return]

    @property
    def generation(self) -> int:
        """1 plus the number of times the job was reopened."""
        return self._row[12]  # type: ignore[no-any-return]

    @property
    def timeout_seconds(self) -> float | None:
        return self._row[13]  # type: ignore[no-any-return]

    @property
    def retry_json(self) -> dict[str, Any] | None:
        return self._row[14]  # type: ignore[no-any-return]

    @property
    def correlation_id(self) -> str | None:
        """Id of the request or pipeline that the job belongs to."""
        return self._row[15]  # type: ignore[no-any-return]

    @property
    def subject(self) -> str | None:
        """What the job is about, as set by the caller, such as a customer or a video."""
        return self._row[16]  # type: ignore[no-any-return]

    @property
    def parent_id(self) -> UUID | None:
        """Id of the job that enqueued this job as a follow-up."""
        return self._row[17]  # type: ignore[no-any-return]

    @property
    def queued_at(self) -> datetime:
        """When the job was enqueued."""
        return moment(self._row[18])

    @property
    def scheduled_for(self) -> datetime:
        """Earliest start of this attempt."""
        return moment(self._row[19])

    @property
    def started_at(self) -> datetime:
        """When the first attempt started."""
        return moment(self._row[20])

    @property
    def last_error(self) -> str | None:
        """Error of the previous attempt."""
        return self._row[22]  # type: ignore[no-any-return]

    @property
    def trace(self) -> str | None:
        """W3C traceparent of the span that enqueued the job."""
        return self._row[23]  # type: ignore[no-any-return]

    @property
    def age(self) -> float:
        """Seconds since the first attempt started, on the database's clock."""
        first, this = struct.unpack("!qq", self._row[20] + self._row[21])
        return float(this - first) / 1e6 + (time.monotonic() - self._claimed_at)

    @property
    def is_first_attempt(self) -> bool:
        """Whether no earlier attempt has started, in this or an earlier generation."""
        return self.generation == 1 and bool(self._row[20] == self._row[21])

    @property
    def about(self) -> dict[str, object]:
        """The fields that the job's log records carry."""
        return {
            "job_id": str(self.id),
            "kind": self.kind,
            "tenant_id": self.tenant,
            "attempt": self.attempt,
        }

    @property
    def log(self) -> JobLog:
        """Logger whose records carry the job's id, kind, tenant and attempt, and are stored
        in the job's log.
        """
        return JobLog(self.about, self._desk.log_level, functools.partial(self._keep, "log"))

    def emit_output(self, stream: str, text: str) -> None:
        """Write text to the job's output.

        ``stream`` is ``"stdout"``, ``"stderr"`` or ``"log"``. The text need not end with a newline. The
        method returns at once and can be called from any thread.
        """
        if stream not in STREAMS:
            raise InvalidReport(f"stream must be one of {', '.join(STREAMS)}, not {stream!r}")
        self._keep(stream, None, text)

    def _keep(self, stream: str, level: str | None, text: str) -> None:
        self.told = True
        self._desk.emit(self, stream, level, text)

    @property
    def canceled(self) -> bool:
        """Whether cancellation of the job was requested. Async handlers are also interrupted by
        CancelledError; thread handlers must check this attribute.
        """
        return self._canceling

    def note_canceling(self) -> None:
        self._canceling = True

    def progress(
        self, percent: float | None = None, *, step: str | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress and extend the lease. Await in an async handler.

        ``percent`` is from 0 to 100, ``step`` names the current step, and ``message`` is free text. Call it
        as often as you like: reports are written a few times per second, and the last one is always written.
        Raises LeaseLost if the job may belong to another worker by now.
        """
        self.told = True
        return self._carry(
            self._desk.report_progress(self, checked_percent(percent), clipped(step), clipped(message))
        )

    def part(self, name: str, *, total: int | None = None, weight: float | None = None) -> Part:
        """Return a named part of the job, with its own status and progress.

        ``total`` is the number of units of work in the part. ``weight`` is its share of the job's progress
        relative to the other parts; the default is 1.
        """
        return Part(self, name, total, weight)

    def parts(
        self,
        names: Iterable[str] = (),
        *,
        totals: Mapping[str, int] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> Any:
        """Declare parts and return them, with the state that earlier attempts left. Await in an async
        handler.

        ``names`` are the parts to declare; ``totals`` and ``weights`` set the units of work and the weight by
        name. The parts are returned in the order of ``names``; without names, all parts of the job are
        returned.
        """
        self.told = True
        totals, weights = totals or {}, weights or {}
        parts = [self.part(name, total=totals.get(name), weight=weights.get(name)) for name in names]
        return self.ask(self._declared(parts))

    async def _declared(self, parts: list[Part]) -> list[Part]:
        rows = await self._desk.declare_parts(self, [part.declaration() for part in parts])
        if not parts:
            return [self.part(row["name"]).recall(row) for row in rows]
        known = {row["name"]: row for row in rows}
        return [part.recall(known[part.name]) for part in parts]

    def report_part(self, change: Mapping[str, Any]) -> Awaitable[None]:
        self.told = True
        return self._carry(self._desk.report_part(self, change))

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function once for all attempts of the job and return its result. Await in an async handler.

        ``text = await job.step("ocr:0-99", read, 0, 99)``. The result is stored as JSON under ``name``; a
        later attempt gets the stored result, and the function is not called again.
        """
        call = functools.partial(function, *args, **kwargs)
        if self._in_loop():
            return self.steps.run(checked_name("step", name), call)
        return self.steps.run_in_thread(checked_name("step", name), call)

    @overload
    def step_commit(self, name: str, /) -> StepCommit: ...
    @overload
    def step_commit(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
    def step_commit(
        self, name: str, function: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a step whose database writes are committed together with it. Await in an async handler.

        ``await job.step_commit("charge", charge, order)`` calls ``charge(connection, order)``. Without a
        function, use it as a context manager: ``async with job.step_commit("charge") as connection:``. The
        connection is None if an earlier attempt has finished the step. In a thread handler use ``with``.
        """
        step = self._desk.begin_step(self, checked_name("step", name))
        if function is None:
            return step
        call = functools.partial(_with_connection, function, args, kwargs)
        if self._in_loop():
            return self.steps.commit(step, call)
        return self.steps.commit_in_thread(step, call)

    def upload(self, what: str | Path | bytes, name: str | None = None) -> Any:
        """Store a file as an artifact of the job. Await in an async handler.

        ``what`` is the path of a file, the path of a folder (stored as a tar.gz archive), or bytes. ``name``
        defaults to the name of the file; an artifact of the same name is replaced. Returns the name, size and
        SHA-256 of the artifact. Raises LeaseLost if another worker has the job.
        """
        return self.ask(upload(self, self._desk, what, name))

    def download(self, name: str, path: str | Path, *, of: UUID | None = None, extract: bool = False) -> Any:
        """Download an artifact to ``path``. Await in an async handler.

        ``await job.download("poster.jpg", "in/poster.jpg", of=parent_id)``. ``of`` is the id of another job
        of the same tenant; the default is this job. With ``extract=True`` the artifact must be a tar.gz
        archive, and ``path`` a new or empty folder that it is extracted into.
        """
        return self.ask(download(self, self._desk, name, path, of, extract=extract))

    def steps_done(self) -> Any:
        """Return the names of the finished steps, oldest first. Await in an async handler."""
        return self.ask(self._desk.steps_done(self))

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            self._steps = Steps(self, self._desk)
        return self._steps

    def noted(self) -> Notes:
        self.told = True
        if self.notes is None:
            self.notes = Notes()
        return self.notes

    def land(self) -> Awaitable[None]:
        """Flush the reports and log records that are still buffered."""
        return self._carry(self._desk.land(self))

    @property
    def lost(self) -> bool:
        """Whether the lease is known to be lost."""
        return isinstance(self.reason, LeaseLost) or (self.notes is not None and self.notes.lost)

    def note_lost(self) -> None:
        """Record that the lease is lost. The handler's next call raises LeaseLost; if it continues, it is
        stopped.
        """
        self.noted().lost = True
        self.expires = min(self.expires, time.monotonic() + HEARING_SECONDS)

    def lost_error(self) -> LeaseLost:
        return LeaseLost(f"lease lost: job {self.id} was reassigned to another worker")

    def refuse_if_lost(self) -> None:
        if self.finished:
            raise LeaseLost("this job has already finished")
        if self.lost:
            raise self.lost_error()

    def enqueue(
        self,
        what: Named | str,
        payload: Mapping[str, Any] | None = None,
        *,
        options: EnqueueOptions | None = None,
        **arguments: Any,
    ) -> UUID:
        """Add a follow-up job, and return its id.

        ``job.enqueue(other, user_id=7)`` for a decorated function, ``job.enqueue("kind", {"user_id": 7})``
        for a kind by name. The follow-up is stored in the transaction that completes this job: if this
        attempt fails, it is not enqueued. ``options`` are enqueue options.
        """
        if self.finished:
            raise LeaseLost("this job has already finished and cannot add follow-ups")
        request = self._desk.admitted(self._request(what, payload, options or {}, arguments))
        job_id = request.id or new_id()
        text = request.to_json(job_id, verify=request.id is not None, payload_limit=self._desk.payload_limit)
        self._followups = self._followups or []
        self._followups.append(text)
        return job_id

    def _request(
        self,
        what: Named | str,
        payload: Mapping[str, Any] | None,
        options: EnqueueOptions,
        arguments: Mapping[str, Any],
    ) -> Request:
        inherited: EnqueueOptions = {
            "tenant": self.tenant,
            "correlation_id": self.correlation_id or str(self.id),
            "source": "system",
        }
        merged: EnqueueOptions = {**inherited, **options}
        if isinstance(what, str):
            if arguments:
                raise InvalidJob("pass the payload as a dict when you enqueue a job by name")
            request = Request(kind=what, payload=payload or {}, **merged)
        else:
            request = what.request({**(payload or {}), **arguments}, merged)
        return traced(request.changed(parent_id=self.id))

    def transaction(self) -> Plain:
        """Open a transaction that is independent of the job's completion.

        ``async with job.transaction() as connection:`` yields a psycopg connection; in a thread handler use
        ``with``. Use it for reads and for writes that are safe to repeat: an attempt that fails later is
        retried. Writes that must happen only once belong in ``commit()`` or ``step_commit()``.
        """
        return self._desk.begin(self)

    def commit(self) -> Commit:
        """Open a transaction that commits the handler's writes together with the job's completion.

        ``async with job.commit() as connection:`` yields a psycopg connection; in a thread handler use
        ``with``. At the end of the block the job is completed on that connection and the transaction is
        committed. If the lease was lost, nothing is written and LeaseLost is raised.
        """
        return self._desk.begin_commit(self)

    @property
    def followup_texts(self) -> list[str] | None:
        return self._followups

    def take_followups(self, texts: list[str] | None) -> None:
        """Set the follow-ups that the handler added in a child process."""
        self._followups = texts

    @property
    def followups(self) -> str | None:
        return f"[{','.join(self._followups)}]" if self._followups else None

    def _carry(self, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        if self._in_loop():
            return work
        self.ask(work)
        return _done()

    def ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the coroutine to be awaited; in a thread, run it on the worker's loop and
        return its result.
        """
        if self._in_loop():
            return work
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._desk.loop)
        return future.result()

    @staticmethod
    def _in_loop() -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True


def _with_connection(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], connection: Any
) -> Any:
    return function(connection, *args, **kwargs)


class _done:  # noqa: N801 - an awaitable that is already done
    def __await__(self) -> Any:
        return iter(())
