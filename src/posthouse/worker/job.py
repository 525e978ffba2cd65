"""What a handler is given: its job."""

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

from posthouse.client.options import Options
from posthouse.core.ids import new_id
from posthouse.core.progress import checked_name, checked_percent, clipped
from posthouse.core.request import Request
from posthouse.errors import InvalidJob, InvalidReport, LeaseLost
from posthouse.storage.claimed import moment
from posthouse.storage.leases import ClaimedRow
from posthouse.tracing import traced
from posthouse.worker.files import download, upload
from posthouse.worker.job_log import JobLog
from posthouse.worker.notes import Notes
from posthouse.worker.parts import Part
from posthouse.worker.steps import Steps

if TYPE_CHECKING:
    from posthouse.worker.commit import Commit, Plain, StepCommit

HEARING_SECONDS = 0.5
"""How long a handler that lost its lease has to make a call, and hear of it, before it is ended."""
STREAMS = ("stdout", "stderr", "log")


class Named(Protocol):
    """Something enqueued by name: a decorated handler."""

    @property
    def kind(self) -> str: ...
    def request(self, arguments: Mapping[str, Any], options: Options) -> Request: ...


class Desk(Protocol):
    """What a job can ask of the worker that runs it."""

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
    """One attempt at a job."""

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
        """Stored with the completion if the handler commits by itself (see commit)."""
        self.task: asyncio.Task[None] | None = None
        self.reason: BaseException | None = None  # why the worker ends it
        self.notes: Notes | None = None  # what it reported; the worker's business
        self.output: dict[str, Any] | None = None  # of a command, as it is kept with the attempt
        self.told = False  # whether it reported or logged anything
        self._steps: Steps | None = None
        self.deadline: float | None = None  # of its timeout, by the monotonic clock
        self.expires = 0.0  # of its lease, likewise
        self.finished = False
        self.committing = False  # by a process of its own: a lease that is gone may be a job that is done

    def __repr__(self) -> str:
        return f"<Job {self.kind} {self.id} attempt {self.attempt}/{self.max_attempts}>"

    @property
    def id(self) -> UUID:
        return UUID(bytes=self._row[0])

    @property
    def row(self) -> ClaimedRow:
        """As it was claimed, for a process that runs the handler."""
        return self._row

    @property
    def claimed_at(self) -> float:
        return self._claimed_at

    @property
    def token(self) -> UUID:
        return self._token

    @property
    def kind(self) -> str:
        return self._row[1]  # type: ignore[no-any-return]

    @property
    def queue(self) -> str:
        return self._row[2]  # type: ignore[no-any-return]

    @property
    def tenant(self) -> str:
        return self._row[3]  # type: ignore[no-any-return]

    @property
    def payload_text(self) -> str:
        return self._row[4]  # type: ignore[no-any-return]

    @property
    def payload(self) -> dict[str, Any]:
        if self._payload is None:
            self._payload = json.loads(self._row[4])
        return self._payload

    @property
    def attempt(self) -> int:
        return self._row[5]  # type: ignore[no-any-return]

    @property
    def max_attempts(self) -> int:
        return self._row[6]  # type: ignore[no-any-return]

    @property
    def priority(self) -> int:
        return self._row[7]  # type: ignore[no-any-return]

    @property
    def lane(self) -> int:
        return self._row[8]  # type: ignore[no-any-return]

    @property
    def position(self) -> int:
        return self._row[9]  # type: ignore[no-any-return]

    @property
    def crashes(self) -> int:
        """How often a worker, or a process of its own, died with this job."""
        return self._row[10]  # type: ignore[no-any-return]

    @property
    def snoozes(self) -> int:
        return self._row[11]  # type: ignore[no-any-return]

    @property
    def generation(self) -> int:
        return self._row[12]  # type: ignore[no-any-return]

    @property
    def timeout_seconds(self) -> float | None:
        return self._row[13]  # type: ignore[no-any-return]

    @property
    def retry_json(self) -> dict[str, Any] | None:
        return self._row[14]  # type: ignore[no-any-return]

    @property
    def correlation_id(self) -> str | None:
        return self._row[15]  # type: ignore[no-any-return]

    @property
    def subject(self) -> str | None:
        return self._row[16]  # type: ignore[no-any-return]

    @property
    def parent_id(self) -> UUID | None:
        return self._row[17]  # type: ignore[no-any-return]

    @property
    def queued_at(self) -> datetime:
        return moment(self._row[18])

    @property
    def scheduled_for(self) -> datetime:
        return moment(self._row[19])

    @property
    def started_at(self) -> datetime:
        """When its first attempt started."""
        return moment(self._row[20])

    @property
    def last_error(self) -> str | None:
        return self._row[22]  # type: ignore[no-any-return]

    @property
    def trace(self) -> str | None:
        """The W3C traceparent of whoever enqueued it."""
        return self._row[23]  # type: ignore[no-any-return]

    @property
    def age(self) -> float:
        """Seconds since its first attempt started, by the database's clock."""
        first, this = struct.unpack("!qq", self._row[20] + self._row[21])
        return float(this - first) / 1e6 + (time.monotonic() - self._claimed_at)

    @property
    def is_first_attempt(self) -> bool:
        """Whether nobody has run it before, in this or an earlier generation."""
        return self.generation == 1 and bool(self._row[20] == self._row[21])

    @property
    def about(self) -> dict[str, object]:
        """What its log records carry."""
        return {
            "job_id": str(self.id),
            "kind": self.kind,
            "tenant_id": self.tenant,
            "attempt": self.attempt,
        }

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job's id, kind, tenant and attempt, and are kept with it."""
        return JobLog(self.about, self._desk.log_level, functools.partial(self._keep, "log"))

    def emit_output(self, stream: str, text: str) -> None:
        """Put out text on ``stdout`` or ``stderr``, to be seen with the job's log. Pieces of lines may come
        as they are; from any thread, without waiting.
        """
        if stream not in STREAMS:
            raise InvalidReport(f"a stream is one of {', '.join(STREAMS)}, not {stream!r}")
        self._keep(stream, None, text)

    def _keep(self, stream: str, level: str | None, text: str) -> None:
        self.told = True
        self._desk.emit(self, stream, level, text)

    @property
    def canceled(self) -> bool:
        """Whether somebody asked for its cancellation. Async handlers are canceled anyway."""
        return self._canceling

    def note_canceling(self) -> None:
        self._canceling = True

    def progress(
        self, percent: float | None = None, *, step: str | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress, and extend the lease. Await it; in a thread it is a plain call.

        Call it as often as you like: it is written a few times a second, and the last report always. Raises
        LeaseLost if another worker may have the job by now.
        """
        self.told = True
        return self._carry(
            self._desk.report_progress(self, checked_percent(percent), clipped(step), clipped(message))
        )

    def part(self, name: str, *, total: int | None = None, weight: float | None = None) -> Part:
        """A named part of the job, with a status and a percentage of its own."""
        return Part(self, name, total, weight)

    def parts(
        self,
        names: Iterable[str] = (),
        *,
        totals: Mapping[str, int] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> Any:
        """Declare parts, and see what earlier attempts left of them. Await it; in a thread just call it.

        Returns these parts, in this order; without names all that the job has.
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
        """Run a function once and for all attempts: a later one gets the result that was kept.

        ``text = await job.step("ocr:0-99", read, 0, 99)``; in a thread just call it. The result is JSON.
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
        """A step whose writes to the database are committed together with it, and so are made once.

        ``await job.step_commit("charge", charge, order)`` calls ``charge(connection, order)``. Without a
        function it is a context: ``async with job.step_commit("charge") as connection:`` gives None instead
        of a connection if the step is done already. In a thread: a plain call, a plain ``with``.
        """
        step = self._desk.begin_step(self, checked_name("step", name))
        if function is None:
            return step
        call = functools.partial(_with_connection, function, args, kwargs)
        if self._in_loop():
            return self.steps.commit(step, call)
        return self.steps.commit_in_thread(step, call)

    def upload(self, what: str | Path | bytes, name: str | None = None) -> Any:
        """Keep a file with the job: a path, or bytes. Of a folder, a tar.gz. Await it; in a thread call it.

        ``await job.upload("out/poster.jpg")``; its name is that of the file unless another is given. One of
        the same name gives way. Returns name, size and sha256. Raises LeaseLost if another has the job.
        """
        return self.ask(upload(self, self._desk, what, name))

    def download(self, name: str, path: str | Path, *, of: UUID | None = None, extract: bool = False) -> Any:
        """Fetch a file that this job keeps, or another job of its tenant. Await it; in a thread call it.

        ``await job.download("poster.jpg", "in/poster.jpg", of=parent_id)``. With ``extract`` it is a tar.gz
        and ``path`` a new or empty folder to put its content in.
        """
        return self.ask(download(self, self._desk, name, path, of, extract=extract))

    def steps_done(self) -> Any:
        """The names of its finished steps, first to last. Await it; in a thread it is a plain call."""
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
        """Writes what it has told and what still waits."""
        return self._carry(self._desk.land(self))

    @property
    def lost(self) -> bool:
        """Whether it is known that the lease is gone."""
        return isinstance(self.reason, LeaseLost) or (self.notes is not None and self.notes.lost)

    def note_lost(self) -> None:
        """The handler hears of it at its next call; if it goes on nevertheless, it is ended."""
        self.noted().lost = True
        self.expires = min(self.expires, time.monotonic() + HEARING_SECONDS)

    def lost_error(self) -> LeaseLost:
        return LeaseLost(f"job {self.id} was given to another worker")

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
        options: Options | None = None,
        **arguments: Any,
    ) -> UUID:
        """Add a follow-up job: it is stored if and only if this job's completion is. Returns its id.

        ``job.enqueue(other, user_id=7)`` for a handler, ``job.enqueue("kind", {...})`` for a name.
        """
        if self.finished:
            raise LeaseLost("this job has already finished: it cannot add follow-ups")
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
        options: Options,
        arguments: Mapping[str, Any],
    ) -> Request:
        inherited: Options = {
            "tenant": self.tenant,
            "correlation_id": self.correlation_id or str(self.id),
            "source": "system",
        }
        merged: Options = {**inherited, **options}
        if isinstance(what, str):
            if arguments:
                raise InvalidJob("a job enqueued by name takes its payload as a dict")
            request = Request(kind=what, payload=payload or {}, **merged)
        else:
            request = what.request({**(payload or {}), **arguments}, merged)
        return traced(request.changed(parent_id=self.id))

    def transaction(self) -> Plain:
        """A transaction on the database, which says nothing of the job: to read, and for writes that bear
        being made again.

        ``async with job.transaction() as connection:`` gives a psycopg connection; in a thread handler use
        ``with``. Writes that must be made once belong into commit() or step_commit().
        """
        return self._desk.begin(self)

    def commit(self) -> Commit:
        """The handler's writes and the completion of the job in one transaction.

        ``async with job.commit() as connection:`` gives a psycopg connection; when the block ends the job
        is completed on it and the transaction committed. If the lease is lost, nothing is written and
        LeaseLost is raised. In a thread handler use ``with job.commit() as connection:``.
        """
        return self._desk.begin_commit(self)

    @property
    def followup_texts(self) -> list[str] | None:
        return self._followups

    def take_followups(self, texts: list[str] | None) -> None:
        """Those that the handler added in a process of its own."""
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
        """The work, to be awaited; in a thread what came of it."""
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


class _done:  # noqa: N801 - an awaitable that has nothing left to do
    def __await__(self) -> Any:
        return iter(())
