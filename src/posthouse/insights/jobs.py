"""Jobs and their attempts, and the search by a part of an id, as users copy it from a list."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.filters.query import FIRST_ID, LAST_ID, MAX_CLOCK_SKEW, moved
from posthouse.core.ids import first_id_at, made_at
from posthouse.core.states import Status
from posthouse.errors import InvalidJob, JobNotFound
from posthouse.insights.masking import DEFAULT_MASK, mask_for, masked
from posthouse.storage.queries import Db, fetch, fetch_row, fetch_rows, fetch_value, fetch_with_generic_plan

MAX_JOBS = 1000
MAX_COUNTED = 100_000
MAX_SCANNED = 2500
"""Maximum number of jobs per status that a page reads. Reading them takes 20 ms if none of them matches."""
MAX_READY_BY_LANE = 200
"""Up to this many ready jobs of a tenant are read by its lanes. If there are more, a scan soon finds some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A filter for jobs. ``after`` is the id of the last job of the previous page.

    ``created_after`` and ``created_before`` compare the time in the job id, which is the time of the enqueue
    unless the caller chose the id.
    """

    statuses: list[str] | None = None
    kind: str | None = None
    queue: str | None = None
    tenant: str | None = None
    correlation: str | None = None
    subject: str | None = None
    source: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    after: UUID | None = None
    limit: int = 50
    offset: int = 0

    def __post_init__(self) -> None:
        known = [status.value for status in Status]
        for status in self.statuses or ():
            if status not in known:
                raise InvalidJob(f"unknown status {status!r}; choose from {', '.join(known)}")
        if not 1 <= self.limit <= MAX_JOBS:
            raise InvalidJob(f"limit must be between 1 and {MAX_JOBS:,}, not {self.limit:,}")

    def parameters(self, most: int | None) -> dict[str, Any]:
        """Return the parameters of the list statements.

        The range of ids for the creation time is always given as two bounds, so that one plan for all lists
        uses the index.
        """
        below = [self.after or LAST_ID]
        if self.created_before is not None:
            below.append(first_id_at(moved(self.created_before, MAX_CLOCK_SKEW)))
        lowest = self.created_after and first_id_at(moved(self.created_after, -MAX_CLOCK_SKEW))
        each = [status.value for status in Status] if self.tenant else None
        return {
            **asdict(self),
            "statuses": sorted(set(self.statuses)) if self.statuses else each,
            "lowest": lowest or FIRST_ID,
            "below": min(below),
            "most": most,
            "few": MAX_READY_BY_LANE,
        }

    @property
    def statement(self) -> str:
        if self.correlation:
            return "jobs_list_by_correlation"
        if self.subject:
            return "jobs_list_by_subject"
        return "jobs_list_by_tenant" if self.tenant else "jobs_list_all"

    @property
    def needs_scan(self) -> bool:
        """Whether many jobs may have to be read to find matching ones."""
        if self.correlation or self.subject:  # each has its own index
            return False
        others = (self.kind, self.queue, self.source, self.created_after, self.created_before)
        return any(others) or bool(self.statuses and not self.tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A job in a list. ``job_table`` is the table of a queued job: ready or waiting."""

    id: UUID
    tenant_id: str
    kind: str
    queue: str
    status: str
    job_table: str
    priority: int
    correlation_id: str | None
    subject: str | None
    source: str
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
    erased_at: datetime | None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSearchPage:
    """A page of jobs.

    ``after`` is the cursor of the next page, None on the last one. ``partial``: the search stopped before the
    page was full; ``scanned_back_to`` is the creation time of the last job that it read.
    """

    jobs: list[JobSummary]
    after: UUID | None
    partial: bool
    scanned_back_to: datetime | None

    @classmethod
    def of(cls, jobs: list[JobSummary], after: UUID | None, *, full: bool) -> JobSearchPage:
        partial = after is not None and not full
        seen = None if after is None else made_at(after)
        return cls(jobs=jobs, after=after, partial=partial, scanned_back_to=seen)


async def list_jobs(connection: Db, chosen: JobFilter | None = None) -> list[JobSummary]:
    """Return jobs, newest first, with secrets masked."""
    chosen = chosen or JobFilter()
    found = await fetch(connection, chosen.statement, JobSummary, **chosen.parameters(None))
    return [DEFAULT_MASK.of(job) for job in found]


async def page_of_jobs(connection: Db, chosen: JobFilter) -> JobSearchPage:
    """Return a page of jobs. Must run in a transaction.

    A page reads a limited number of jobs, so it may have fewer than requested, even none, while more follow.
    The query plans are cached, because planning takes 8 ms with daily partitions for ten days.
    """
    most = MAX_SCANNED + chosen.offset
    parameters = chosen.parameters(most)
    listed = await fetch_with_generic_plan(connection, chosen.statement, JobSummary, **parameters)
    found = [DEFAULT_MASK.of(job) for job in listed]
    if len(found) == chosen.limit:
        return JobSearchPage.of(found, found[-1].id, full=True)
    if not chosen.needs_scan:
        return JobSearchPage.of(found, None, full=False)
    name = "jobs_page_end_by_tenant" if chosen.tenant else "jobs_page_end_all"
    horizon = await fetch_with_generic_plan(connection, name, _PageEnd, **parameters)
    if not horizon:
        return JobSearchPage.of(found, None, full=False)
    last = horizon[0].id
    return JobSearchPage.of([job for job in found if job.id >= last], last, full=False)


@dataclass(frozen=True, slots=True)
class _PageEnd:
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    dead_letter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCounts:
    """Counts of jobs by status; a count of ``count_limit`` means that many or more.

    Of the queued jobs, ``ready`` can start now, and ``waiting`` are due later or wait for other jobs.
    ``oldest_queued_seconds``: how long the oldest ready job has been waiting.
    """

    counts: JobCounts
    ready: int
    waiting: int
    running: int
    oldest_queued_seconds: float | None
    count_limit: int


async def jobs_summary(connection: Db, *, tenant: str | None = None, most: int = MAX_COUNTED) -> StatusCounts:
    row = await fetch_row(connection, "jobs_summary", tenant=tenant, most=most)
    queued = min(row["ready"] + row["waiting"], most)
    ended = {name: row[name] for name in ("running", "succeeded", "failed", "canceled", "dead_letter")}
    return StatusCounts(
        counts=JobCounts(queued=queued, **ended),
        ready=row["ready"],
        waiting=row["waiting"],
        running=row["running"],
        oldest_queued_seconds=row["oldest_queued_seconds"],
        count_limit=most,
    )


async def active_job_ids(connection: Db, chosen: JobFilter, *, most: int) -> list[UUID]:
    """Return the ids of the matching queued and running jobs, oldest first."""
    found = await fetch_rows(connection, "jobs_active_ids", **chosen.parameters(most))
    return [row["id"] for row in found]


async def count_jobs(connection: Db, chosen: JobFilter, *, most: int = MAX_COUNTED) -> int:
    """Count the matching queued and running jobs, up to ``most``."""
    return int(await fetch_value(connection, "jobs_active_count", **chosen.parameters(most)))


async def get_job(connection: Db, job_id: UUID, *, tenant: str | None = None) -> JobDetail:
    found = await fetch(connection, "job_show", JobDetail, id=job_id, tenant=tenant)
    if not found:
        raise JobNotFound(f"job {job_id} does not exist")
    (job,) = await masked(await mask_for(connection, job_id), found[:1])
    return job


async def list_attempts(connection: Db, job_id: UUID, *, tenant: str | None = None) -> list[AttemptInfo]:
    """Return the attempts of a job, first to last; empty if it has not started."""
    found = await fetch(connection, "job_attempts", AttemptInfo, id=job_id, tenant=tenant)
    if not found:
        await get_job(connection, job_id, tenant=tenant)
    return await masked(await mask_for(connection, job_id), found)


DIGITS = 32
SEARCHED = 100_000
"""Maximum number of the newest jobs of each table that a search by suffix reads."""
_DASH_AFTER = (12, 16, 20, 24)
"""Positions of the dashes of an id, as the number of digits that follow each dash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedJob:
    """A job whose id matches."""

    id: UUID
    kind: str
    status: str


async def jobs_by_part_of_id(
    connection: Db, digits: str, *, limit: int = 10, searched: int = SEARCHED
) -> list[MatchedJob]:
    """Return jobs whose id starts or ends with these hexadecimal digits, newest first.

    A suffix is searched among the newest ``searched`` jobs of each table.
    """
    dashes = sum(len(digits) > behind for behind in _DASH_AFTER)
    return await fetch(
        connection,
        "jobs_by_part_of_id",
        MatchedJob,
        lowest=UUID(digits.ljust(DIGITS, "0")),
        highest=UUID(digits.ljust(DIGITS, "f")),
        suffix=str(UUID(digits.rjust(DIGITS, "0")))[-(len(digits) + dashes) :],
        searched=searched,
        limit=limit,
    )
