"""What a handler is given: its job."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from posthouse.client.options import Options
from posthouse.core.ids import new_id
from posthouse.core.request import Request
from posthouse.errors import InvalidJob, LeaseLost
from posthouse.storage.leases import ClaimedRow

if TYPE_CHECKING:
    from posthouse.worker.commit import Commit

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_log = logging.getLogger("posthouse.job")


class Named(Protocol):
    """Something enqueued by name: a decorated handler."""

    @property
    def kind(self) -> str: ...
    def request(self, arguments: Mapping[str, Any], options: Options) -> Request: ...


class Desk(Protocol):
    """What a job can ask of the worker that runs it."""

    loop: asyncio.AbstractEventLoop
    payload_limit: int

    async def report_progress(
        self, job: Job, percent: float | None, step: str | None, message: str | None
    ) -> None: ...
    def begin_commit(self, job: Job) -> Commit: ...


class Job:
    """One attempt at a job."""

    __slots__ = (
        "_canceling", "_claimed_at", "_desk", "_followups", "_payload", "_row", "_token",
        "deadline", "expires", "finished", "hex_id", "hex_token", "reason", "result", "task",
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
        self.deadline: float | None = None  # of its timeout, by the monotonic clock
        self.expires = 0.0  # of its lease, likewise
        self.finished = False

    def __repr__(self) -> str:
        return f"<Job {self.kind} {self.id} attempt {self.attempt}/{self.max_attempts}>"

    @property
    def id(self) -> UUID:
        return UUID(bytes=self._row[0])

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
        """How often a worker died with this job."""
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
        return _moment(self._row[18])

    @property
    def scheduled_for(self) -> datetime:
        return _moment(self._row[19])

    @property
    def started_at(self) -> datetime:
        """When its first attempt started."""
        return _moment(self._row[20])

    @property
    def last_error(self) -> str | None:
        return self._row[22]  # type: ignore[no-any-return]

    @property
    def age(self) -> float:
        """Seconds since its first attempt started, by the database's clock."""
        first, this = struct.unpack("!qq", self._row[20] + self._row[21])
        return float(this - first) / 1e6 + (time.monotonic() - self._claimed_at)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the job's id, kind, tenant and attempt."""
        about = {
            "job_id": str(self.id),
            "kind": self.kind,
            "tenant_id": self.tenant,
            "attempt": self.attempt,
        }
        return logging.LoggerAdapter(_log, about)

    @property
    def canceled(self) -> bool:
        """Whether somebody asked for its cancellation. Async handlers are canceled anyway."""
        return self._canceling

    def note_canceling(self) -> None:
        self._canceling = True

    def progress(
        self, percent: float | None = None, *, step: str | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report progress, and extend the lease. Await it; in a thread it is done when it returns.

        Raises LeaseLost if another worker may have the job by now.
        """
        return self._carry(self._desk.report_progress(self, percent, step, message))

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
        request = self._request(what, payload, options or {}, arguments)
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
        return request.changed(parent_id=self.id)

    def commit(self) -> Commit:
        """The handler's writes and the completion of the job in one transaction.

        ``async with job.commit() as connection:`` gives a psycopg connection; when the block ends the job
        is completed on it and the transaction committed. If the lease is lost, nothing is written and
        LeaseLost is raised. In a thread handler use ``with job.commit() as connection:``.
        """
        return self._desk.begin_commit(self)

    @property
    def followups(self) -> str | None:
        return f"[{','.join(self._followups)}]" if self._followups else None

    def _carry(self, work: Awaitable[None]) -> Awaitable[None]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            future: Future[None] = asyncio.run_coroutine_threadsafe(_awaited(work), self._desk.loop)
            future.result()
            return _done()
        return work


async def _awaited(work: Awaitable[None]) -> None:
    await work


class _done:  # noqa: N801 - an awaitable that has nothing left to do
    def __await__(self) -> Any:
        return iter(())


def _moment(raw: bytes) -> datetime:
    return _EPOCH + timedelta(microseconds=struct.unpack("!q", raw)[0])
