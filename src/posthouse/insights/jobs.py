"""Jobs and their attempts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.states import Status
from posthouse.errors import InvalidJob, JobNotFound
from posthouse.insights.masking import WITHOUT_JOB, mask_for
from posthouse.storage.reading import Db, fetch

MOST_JOBS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list. ``after`` is the id of the last job seen: the list goes on behind it."""

    statuses: list[str] | None = None
    kind: str | None = None
    queue: str | None = None
    tenant: str | None = None
    correlation: str | None = None
    subject: str | None = None
    after: UUID | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        known = [status.value for status in Status]
        for status in self.statuses or ():
            if status not in known:
                raise InvalidJob(f"there is no status {status!r}; choose from {', '.join(known)}")
        if not 1 <= self.limit <= MOST_JOBS:
            raise InvalidJob(f"limit is from 1 to {MOST_JOBS:,}, not {self.limit:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A job as a line of a list. ``place`` says where a queued job stands: ready or waiting."""

    id: UUID
    tenant_id: str
    kind: str
    queue: str
    status: str
    place: str
    priority: int
    correlation_id: str | None
    subject: str | None
    scheduled_for: datetime
    queued_at: datetime
    started_at: datetime | None
    attempt_started_at: datetime | None
    finished_at: datetime | None
    attempt_count: int
    max_attempts: int
    worker_id: UUID | None
    progress_percent: float | None
    current_step: str | None
    blockers: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobSummary):
    payload: Any
    result: Any
    error: dict[str, Any] | None
    dedupe_key: str | None
    order_key: str | None
    source: str
    source_ref: str | None
    created_by: str | None
    parent_id: UUID | None
    depends_on: list[UUID] | None
    generation: int
    crashes: int
    snoozes: int
    timeout_seconds: float | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    progress_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInfo:
    generation: int
    attempt: int
    worker_id: UUID | None
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    exit_code: int | None
    signal: str | None
    pid: int | None
    error_type: str | None
    error_message: str | None
    traceback: str | None
    stdout_tail: str | None
    stderr_tail: str | None


async def list_jobs(connection: Db, chosen: JobFilter | None = None) -> list[JobSummary]:
    """Newest first. Secrets are masked, here as in everything below."""
    found = await fetch(connection, "jobs_list", JobSummary, **asdict(chosen or JobFilter()))
    return [WITHOUT_JOB.of(job) for job in found]


async def get_job(connection: Db, job_id: UUID, *, tenant: str | None = None) -> JobDetail:
    found = await fetch(connection, "job_show", JobDetail, id=job_id, tenant=tenant)
    if not found:
        raise JobNotFound(f"there is no job {job_id}")
    return (await mask_for(connection, job_id)).of(found[0])


async def attempts_of(connection: Db, job_id: UUID, *, tenant: str | None = None) -> list[AttemptInfo]:
    """First to last; empty for a job that has not started."""
    found = await fetch(connection, "job_attempts", AttemptInfo, id=job_id, tenant=tenant)
    if not found:
        await get_job(connection, job_id, tenant=tenant)
    mask = await mask_for(connection, job_id)
    return [mask.of(attempt) for attempt in found]
