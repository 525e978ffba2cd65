"""The parts of an explanation of a job's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from posthouse.core.definition import is_own

Reason: TypeAlias = Literal[
    "scheduled",
    "due",
    "blocked",
    "paused",
    "no_worker",
    "limit",
    "rate",
    "preferred",
    "ready",
    "running",
    "ended",
]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that must end before the job can start. Its status is None if it is no longer stored."""

    id: UUID
    kind: str | None
    status: str | None


@dataclass(frozen=True, slots=True)
class CandidateWorker:
    """A live worker that can run the job."""

    id: UUID
    name: str
    concurrency: int
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolder:
    """A running job that uses a slot of a limit."""

    id: UUID
    kind: str
    worker: str | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A limit that keeps the job from starting, and some of the jobs that use its slots."""

    name: str
    per: str
    in_use: int
    max_running: int | None
    rate: float | None
    burst: float | None
    tokens: float | None
    cost: float
    seconds: float | None
    holders: list[SlotHolder] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The explanation of a job's state.

    ``also``: further reasons. ``missing``: capabilities that no worker has. ``ahead``: jobs of its queue and
    kind ahead of it. ``starts_in_seconds``: an estimate from recent throughput.
    """

    job_id: UUID
    status: str
    reason: Reason
    summary: str
    advice: str = ""
    also: list[str] = field(default_factory=list)
    until: datetime | None = None
    blocked_by: list[Dependency] = field(default_factory=list)
    limits: list[Blocker] = field(default_factory=list)
    paused_by: str | None = None
    missing: list[str] = field(default_factory=list)
    workers: list[CandidateWorker] = field(default_factory=list)
    ahead: int | None = None
    starts_in_seconds: float | None = None
    worker_id: UUID | None = None
    since: datetime | None = None
    lease_expires_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLocation:
    """The columns of the statement job_location."""

    id: UUID
    kind: str
    queue: str
    tenant_id: str
    status: str
    job_table: str
    attempt_count: int
    max_attempts: int
    priority: int
    requires: list[str] | None
    prefers: list[str] | None
    last_error: str | None
    finished_at: datetime | None
    worker_id: UUID | None
    worker_name: str | None
    attempt_started_at: datetime | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    due_at: datetime | None
    lane: int | None
    position: int | None
    rank: int | None
    paused_at: datetime | None
    paused_by: str | None
    defined: bool
    unserved_since: datetime | None
    now: datetime

    @property
    def lacks_definition(self) -> bool:
        """Whether the job waits for a definition. Posthouse's own kinds have none."""
        return not self.defined and not is_own(self.kind)

    @property
    def needs_newer_code(self) -> bool:
        """Whether workers with older code rejected the payload.

        A required capability that begins with ``!`` then excludes those workers.
        """
        return any(word.startswith("!") for word in self.requires or ())


def undefined_summary(location: JobLocation) -> str:
    return f"no definition of kind {location.kind!r}"


def paused_summary(location: JobLocation) -> str:
    return f"queue {location.queue!r} is paused by {location.paused_by}"
