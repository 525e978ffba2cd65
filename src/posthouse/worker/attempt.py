"""One attempt of a job in its worker: the claimed row, the lease, and the state of the attempt."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from uuid import UUID

from posthouse.errors import LeaseLost
from posthouse.worker.contexts import is_in_loop
from posthouse.worker.progress import PendingReport

if TYPE_CHECKING:
    from posthouse.storage.claimed import ClaimedJob
    from posthouse.worker.services import JobServices

LEASE_LOST_GRACE_SECONDS = 0.5
"""How long a handler may continue after its lease was lost. Its next call on the job raises LeaseLost."""


class Attempt:
    """The state of an attempt, from which the handler's ``Job`` is made.

    Times are of the monotonic clock.
    """

    __slots__ = (
        "_payload", "claimed_at", "command_output", "deadline", "followups", "has_reports", "hex_id",
        "hex_token", "is_cancel_requested", "is_committing", "is_finished", "lease_expires_at",
        "pending_report", "result", "row", "services", "stop_reason", "task", "token",
    )  # fmt: skip

    def __init__(
        self, row: ClaimedJob, token: UUID, hex_token: str, claimed_at: float, services: JobServices
    ) -> None:
        self.row = row
        self.token = token
        self.hex_id: str = row.id.hex()
        self.hex_token = hex_token
        self.claimed_at = claimed_at
        self.services = services
        self._payload: dict[str, Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.deadline: float | None = None
        """When the timeout of the handler ends."""
        self.lease_expires_at = 0.0
        self.stop_reason: BaseException | None = None
        """Why the worker stops the attempt."""
        self.is_cancel_requested = False
        self.is_finished = False
        self.is_committing = False
        """Whether a transaction completes the job: a heartbeat without a lease may have seen its commit."""
        self.has_reports = False
        """Whether the handler has reported or logged anything."""
        self.pending_report: PendingReport | None = None
        self.result: Any = None
        """Stored with the completion if the handler uses ``commit()``."""
        self.command_output: dict[str, Any] | None = None
        """Output of a command, stored with the attempt."""
        self.followups: list[str] | None = None

    def __repr__(self) -> str:
        return f"<{self.row.kind} {self.id} attempt {self.attempt}/{self.max_attempts}>"

    @property
    def id(self) -> UUID:
        return UUID(bytes=self.row.id)

    @property
    def payload(self) -> dict[str, Any]:
        if self._payload is None:
            self._payload = json.loads(self.row.payload)
        return self._payload

    @property
    def attempt(self) -> int:
        return self.row.attempt

    @property
    def max_attempts(self) -> int:
        return self.row.max_attempts

    @property
    def crashes(self) -> int:
        return self.row.crashes

    @property
    def snoozes(self) -> int:
        return self.row.snoozes

    @property
    def age(self) -> float:
        """Seconds since the first attempt started, on the database's clock."""
        first, this = struct.unpack("!qq", self.row.started_at + self.row.attempt_started_at)
        return float(this - first) / 1e6 + (time.monotonic() - self.claimed_at)

    @property
    def is_first(self) -> bool:
        """Whether no earlier attempt has started, in this or an earlier generation."""
        return self.row.generation == 1 and self.row.started_at == self.row.attempt_started_at

    @property
    def log_context(self) -> dict[str, object]:
        """The fields that the attempt's log records carry."""
        return {
            "job_id": str(self.id),
            "kind": self.row.kind,
            "tenant_id": self.row.tenant_id,
            "attempt": self.row.attempt,
        }

    @property
    def followups_json(self) -> str | None:
        return f"[{','.join(self.followups)}]" if self.followups else None

    def get_pending_report(self) -> PendingReport:
        """Return the pending report, and create it on the first call."""
        self.has_reports = True
        if self.pending_report is None:
            self.pending_report = PendingReport()
        return self.pending_report

    @property
    def is_lease_lost(self) -> bool:
        """Whether the lease is known to be lost."""
        return isinstance(self.stop_reason, LeaseLost) or (
            self.pending_report is not None and self.pending_report.is_lease_lost
        )

    def mark_lease_lost(self) -> None:
        """Record that the lease is lost.

        The handler's next call raises LeaseLost. A handler that continues is stopped.
        """
        self.get_pending_report().is_lease_lost = True
        self.lease_expires_at = min(self.lease_expires_at, time.monotonic() + LEASE_LOST_GRACE_SECONDS)

    def lease_lost_error(self) -> LeaseLost:
        return LeaseLost(f"lease lost: job {self.id} was reassigned to another worker")

    def ensure_lease_held(self) -> None:
        if self.is_finished:
            raise LeaseLost("this job has already finished")
        if self.is_lease_lost:
            raise self.lease_lost_error()

    def run_in_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the coroutine in an event loop; in a thread, run it on the worker's loop.

        In a thread, the result of the coroutine is returned.
        """
        if is_in_loop():
            return work
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.services.loop)
        return future.result()
