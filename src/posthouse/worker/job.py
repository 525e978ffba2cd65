"""The job object that a handler receives."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload
from uuid import UUID

from posthouse.core.ids import new_id
from posthouse.core.progress import checked_name, checked_percent, clipped
from posthouse.core.request import EnqueueOptions, Request
from posthouse.errors import InvalidJob, InvalidReport, LeaseLost
from posthouse.storage.claimed import decode_time
from posthouse.tracing import traced
from posthouse.worker.artifacts import download, upload
from posthouse.worker.log_writer import JobLog
from posthouse.worker.progress import Part, declare_parts
from posthouse.worker.transactions import (
    CommitTransaction,
    PlainTransaction,
    StepRunner,
    StepTransaction,
)

if TYPE_CHECKING:
    from posthouse.worker.attempt import Attempt

STREAMS = ("stdout", "stderr", "log")


class EnqueueableJob(Protocol):
    """An object that can be enqueued by name, such as a decorated handler."""

    @property
    def kind(self) -> str: ...
    def request(self, arguments: Mapping[str, Any], options: EnqueueOptions) -> Request: ...


class Job:
    """One attempt of a job: the first argument of a handler, if it is named ``job`` or annotated ``Job``.

    Methods marked "await in an async handler" are plain calls in a thread handler.
    """

    __slots__ = ("_attempt", "_steps")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._steps: StepRunner | None = None

    def __repr__(self) -> str:
        return f"<Job {self.kind} {self.id} attempt {self.attempt}/{self.max_attempts}>"

    @property
    def id(self) -> UUID:
        """Id of the job."""
        return self._attempt.id

    @property
    def token(self) -> UUID:
        """Lease token: identifies this attempt. No other attempt of any job has the same token."""
        return self._attempt.token

    @property
    def kind(self) -> str:
        """Name of the job kind."""
        return self._attempt.row.kind

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self._attempt.row.queue

    @property
    def tenant(self) -> str:
        """Tenant that owns the job."""
        return self._attempt.row.tenant_id

    @property
    def payload(self) -> dict[str, Any]:
        """Payload of the job, as it was enqueued."""
        return self._attempt.payload

    @property
    def attempt(self) -> int:
        """Number of this attempt; the first is 1."""
        return self._attempt.row.attempt

    @property
    def max_attempts(self) -> int:
        """Maximum number of attempts."""
        return self._attempt.row.max_attempts

    @property
    def priority(self) -> int:
        """Priority of the job; lower numbers run first."""
        return self._attempt.row.priority

    @property
    def crashes(self) -> int:
        """How often a worker, or the process that ran the handler, died while running this job."""
        return self._attempt.row.crashes

    @property
    def snoozes(self) -> int:
        """How often the job was snoozed."""
        return self._attempt.row.snoozes

    @property
    def generation(self) -> int:
        """1 plus the number of times the job was reopened."""
        return self._attempt.row.generation

    @property
    def correlation_id(self) -> str | None:
        """Id of the request or pipeline that the job belongs to."""
        return self._attempt.row.correlation_id

    @property
    def subject(self) -> str | None:
        """What the job is about, as set by the caller, such as a customer or a video."""
        return self._attempt.row.subject

    @property
    def parent_id(self) -> UUID | None:
        """Id of the job that enqueued this job as a follow-up."""
        return self._attempt.row.parent_id

    @property
    def queued_at(self) -> datetime:
        """When the job was enqueued."""
        return decode_time(self._attempt.row.queued_at)

    @property
    def scheduled_for(self) -> datetime:
        """Earliest start of this attempt."""
        return decode_time(self._attempt.row.scheduled_for)

    @property
    def started_at(self) -> datetime:
        """When the first attempt started."""
        return decode_time(self._attempt.row.started_at)

    @property
    def last_error(self) -> str | None:
        """Error of the previous attempt."""
        return self._attempt.row.last_error

    @property
    def trace(self) -> str | None:
        """W3C traceparent of the span that enqueued the job."""
        return self._attempt.row.trace

    @property
    def is_first_attempt(self) -> bool:
        """Whether no earlier attempt has started, in this or an earlier generation."""
        return self._attempt.is_first

    @property
    def log(self) -> JobLog:
        """Logger whose records carry the job's id, kind, tenant and attempt, and are stored
        in the job's log.
        """
        attempt = self._attempt
        append = functools.partial(self._append_log, "log")
        return JobLog(attempt.log_context, attempt.services.limits.log_level, append)

    @property
    def canceled(self) -> bool:
        """Whether cancellation of the job was requested. Async handlers are also interrupted by
        CancelledError; thread handlers must check this attribute.
        """
        return self._attempt.is_cancel_requested

    @property
    def result(self) -> Any:
        """The result to store if the handler uses ``commit()``."""
        return self._attempt.result

    @result.setter
    def result(self, result: Any) -> None:
        self._attempt.result = result

    def emit_output(self, stream: str, text: str) -> None:
        """Write text to the job's output.

        ``stream`` is ``"stdout"``, ``"stderr"`` or ``"log"``. The text need not end with a newline. The
        method returns at once and can be called from any thread.
        """
        if stream not in STREAMS:
            raise InvalidReport(f"stream must be one of {', '.join(STREAMS)}, not {stream!r}")
        self._append_log(stream, None, text)

    def _append_log(self, stream: str, level: str | None, text: str) -> None:
        self._attempt.has_reports = True
        self._attempt.services.emit(self._attempt, stream, level, text)

    def progress(
        self, percent: float | None = None, *, step: str | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress and extend the lease. Await in an async handler.

        ``percent`` is from 0 to 100, ``step`` names the current step, and ``message`` is free text. Call it
        as often as you like: reports are written a few times per second, and the last one is always written.
        Raises LeaseLost if the job may belong to another worker by now.
        """
        attempt = self._attempt
        attempt.has_reports = True
        return attempt.run_in_loop(  # type: ignore[no-any-return]
            attempt.services.report_progress(
                attempt, checked_percent(percent), clipped(step), clipped(message)
            )
        )

    def part(self, name: str, *, total: int | None = None, weight: float | None = None) -> Part:
        """Return a named part of the job, with its own status and progress.

        ``total`` is the number of units of work in the part. ``weight`` is its share of the job's progress
        relative to the other parts; the default is 1.
        """
        return Part(self._attempt, name, total, weight)

    def parts(
        self,
        names: Iterable[str] = (),
        *,
        totals: Mapping[str, int] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> Any:
        """Declare parts and return them, with the state of earlier attempts. Await in an async handler.

        ``names`` are the parts to declare; ``totals`` and ``weights`` set the units of work and the weight by
        name. The parts are returned in the order of ``names``; without names, all parts of the job are
        returned.
        """
        totals, weights = totals or {}, weights or {}
        parts = [self.part(name, total=totals.get(name), weight=weights.get(name)) for name in names]
        return self._attempt.run_in_loop(declare_parts(self._attempt, parts))

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function once for all attempts of the job and return its result. Await in an async handler.

        ``text = await job.step("ocr:0-99", read, 0, 99)``. The result is stored as JSON under ``name``; a
        later attempt gets the stored result, and the function is not called again.
        """
        call = functools.partial(function, *args, **kwargs)
        return self._get_steps().run(checked_name("step", name), call)

    @overload
    def step_commit(self, name: str, /) -> StepTransaction: ...
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
        transaction = StepTransaction(self._attempt, checked_name("step", name))
        if function is None:
            return transaction
        return self._get_steps().commit(transaction, lambda connection: function(connection, *args, **kwargs))

    def _get_steps(self) -> StepRunner:
        self._steps = self._steps or StepRunner(self._attempt)
        return self._steps

    def upload(self, what: str | Path | bytes, name: str | None = None) -> Any:
        """Store a file as an artifact of the job. Await in an async handler.

        ``what`` is the path of a file, the path of a folder (stored as a tar.gz archive), or bytes. ``name``
        defaults to the name of the file; an artifact of the same name is replaced. Returns the name, size and
        SHA-256 of the artifact. Raises LeaseLost if another worker has the job.
        """
        return self._attempt.run_in_loop(upload(self._attempt, what, name))

    def download(self, name: str, path: str | Path, *, of: UUID | None = None, extract: bool = False) -> Any:
        """Download an artifact to ``path``. Await in an async handler.

        ``await job.download("poster.jpg", "in/poster.jpg", of=parent_id)``. ``of`` is the id of another job
        of the same tenant; the default is this job. With ``extract=True`` the artifact must be a tar.gz
        archive, and ``path`` a new or empty folder that it is extracted into.
        """
        return self._attempt.run_in_loop(download(self._attempt, name, path, of, extract=extract))

    def steps_done(self) -> Any:
        """Return the names of the finished steps, oldest first. Await in an async handler."""
        return self._attempt.run_in_loop(self._attempt.services.steps_done(self._attempt))

    def enqueue(
        self,
        what: EnqueueableJob | str,
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
        attempt = self._attempt
        if attempt.is_finished:
            raise LeaseLost("this job has already finished and cannot add follow-ups")
        services = attempt.services
        request = services.apply_definition(self._request(what, payload, options or {}, arguments))
        job_id, limit = request.id or new_id(), services.limits.payload_bytes
        text = request.to_json(job_id, verify=request.id is not None, payload_limit=limit)
        attempt.followups = attempt.followups or []
        attempt.followups.append(text)
        return job_id

    def _request(
        self,
        what: EnqueueableJob | str,
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

    def transaction(self) -> PlainTransaction:
        """Open a transaction that is independent of the job's completion.

        ``async with job.transaction() as connection:`` yields a psycopg connection; in a thread handler use
        ``with``. Use it for reads and for writes that are safe to repeat: an attempt that fails later is
        retried. Writes that must happen only once belong in ``commit()`` or ``step_commit()``.
        """
        return PlainTransaction(self._attempt)

    def commit(self) -> CommitTransaction:
        """Open a transaction that commits the handler's writes together with the job's completion.

        ``async with job.commit() as connection:`` yields a psycopg connection; in a thread handler use
        ``with``. At the end of the block the job is completed on that connection and the transaction is
        committed. If the lease was lost, nothing is written and LeaseLost is raised.
        """
        return CommitTransaction(self._attempt)
