"""The timeline of a job for a chart: waits, attempts, steps, parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from posthouse.insights.jobs import JobDetail, get_job
from posthouse.insights.masking import mask_for, masked
from posthouse.insights.why import why
from posthouse.storage.queries import Db, database_now, fetch, fetch_value


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """The columns of the statement job_attempt_spans.

    ``ready_at``: when the attempt could have started. None for the last attempt, because the job has the
    time, and for attempts for which it is unknown.
    """

    generation: int
    attempt: int
    worker_id: UUID | None
    worker: str | None
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    error_type: str | None
    error_message: str | None
    ready_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait. Its reason may change until it has ended."""

    reason: str
    started_at: datetime
    ended_at: datetime | None
    generation: int


_AFTER = {"snoozed": "snoozed", "released": "queued", "lost": "queued", "crashed": "queued"}
"""The reason of the wait after an attempt with this outcome. After other outcomes it is the retry."""


def compute_waits(
    job: JobDetail, attempts: Sequence[AttemptSpan], unblocked_at: datetime | None
) -> list[Wait]:
    """Return the waits of a job, first to last.

    ``unblocked_at``: when the last job that it depends on ended.
    """
    found = _iter_waits(job, attempts, unblocked_at)
    return [item for item in found if item.ended_at is None or item.ended_at > item.started_at]


def _iter_waits(
    job: JobDetail, attempts: Sequence[AttemptSpan], unblocked_at: datetime | None
) -> Iterator[Wait]:
    before: AttemptSpan | None = None
    for attempt in attempts:
        if before is not None or _is_first(attempt):  # otherwise earlier attempts are no longer stored
            last = attempt is attempts[-1]
            ready_at = attempt.ready_at or _ready_at(job, unblocked_at, first=before is None, last=last)
            yield from _between(job, before, ready_at, attempt.started_at, attempt.generation)
        before = attempt
    if job.job_table != "running" and not _was_ended_by(job, before):
        yield from _current_wait(job, before, unblocked_at)


def _ready_at(job: JobDetail, unblocked_at: datetime | None, *, first: bool, last: bool) -> datetime | None:
    """Return when an attempt could have started, if its record does not contain that time."""
    if first and _is_blocked(job):
        return unblocked_at
    return job.scheduled_for if last else None


def _is_first(attempt: AttemptSpan) -> bool:
    return attempt.attempt == 1 and attempt.generation == 1


def _is_blocked(job: JobDetail) -> bool:
    return bool(job.depends_on) or job.order_key is not None


def _was_ended_by(job: JobDetail, attempt: AttemptSpan | None) -> bool:
    """Return whether this attempt finished the job."""
    return job.finished_at is not None and attempt is not None and attempt.finished_at == job.finished_at


def _current_wait(
    job: JobDetail, before: AttemptSpan | None, unblocked_at: datetime | None
) -> Iterator[Wait]:
    """Yield the current wait, or the one in which the job was canceled."""
    ready_at = _ready_at(job, unblocked_at, first=before is None, last=True)
    yield from _between(job, before, ready_at, job.finished_at, job.generation)


def _between(
    job: JobDetail,
    before: AttemptSpan | None,
    ready_at: datetime | None,
    end: datetime | None,
    generation: int,
) -> Iterator[Wait]:
    """Yield the waits between two attempts: until the second could start, and until it started.

    ``end`` is None while the job is still waiting.
    """
    reason, start = _reason_and_start(job, before, ready_at, generation)
    if start is None:
        return
    if ready_at is not None and ready_at > start and (end is None or ready_at < end):
        if end is not None or job.job_table == "ready":  # otherwise the job is not ready yet
            yield Wait(reason=reason, started_at=start, ended_at=ready_at, generation=generation)
            reason, start = "queued", ready_at
    elif ready_at is not None and ready_at <= start:
        reason = "queued"
    yield Wait(reason=reason, started_at=start, ended_at=end, generation=generation)


def _reason_and_start(
    job: JobDetail, before: AttemptSpan | None, ready_at: datetime | None, generation: int
) -> tuple[str, datetime | None]:
    if before is None:
        held = "blocked" if job.depends_on else "ordered" if job.order_key is not None else "scheduled"
        return held, job.queued_at
    if before.generation != generation:  # a retry of the ended job, which waits from when it was ready
        return "queued", ready_at
    return _AFTER.get(before.outcome, "retry"), before.finished_at


MAX_SPANS = 500
MAX_FOLLOW_UPS = 200
MAX_SCANNED = 20_000
"""Maximum number of jobs of a correlation that are searched for follow-ups: 30 ms."""

SpanType: TypeAlias = Literal["wait", "attempt", "step", "part"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A period of a job; ``ended_at`` is None while it lasts.

    ``reason``, of a wait: scheduled, blocked (by jobs it depends on), ordered (by earlier jobs of its
    ordered group), retry, snoozed, queued (it could have started); the current wait has the reason of
    ``why``: paused, no_worker, limit, rate, preferred, due. ``detail`` describes the current wait.
    """

    type: SpanType
    name: str
    reason: str | None = None
    detail: str | None = None
    status: str
    started_at: datetime
    ended_at: datetime | None
    generation: int | None = None
    attempt: int | None = None
    worker_id: UUID | None = None
    worker: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """A job that the job enqueued."""

    id: UUID
    kind: str
    status: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineJob:
    id: UUID
    tenant_id: str
    kind: str
    queue: str
    status: str
    subject: str | None
    correlation_id: str | None
    parent_id: UUID | None
    created_at: datetime
    scheduled_for: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt_count: int
    max_attempts: int
    generation: int
    progress_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The timeline of a job.

    ``now``: the database's time, the end of unfinished spans. ``truncated``: some spans or follow-ups are
    left out.
    """

    job: TimelineJob
    now: datetime
    spans: list[Span]
    follow_ups: list[FollowUp]
    truncated: bool


@dataclass(frozen=True, slots=True)
class _SpanRow:
    """The columns of the statement job_part_spans."""

    type: SpanType
    name: str
    status: str
    generation: int
    attempt: int
    started_at: datetime
    finished_at: datetime | None
    error: str | None


async def timeline_of(connection: Db, job_id: UUID, *, tenant: str | None = None) -> Timeline:
    """Return the spans in the order of their start; of a job with too many, the latest."""
    job = await get_job(connection, job_id, tenant=tenant)
    attempts = await fetch(connection, "job_attempt_spans", AttemptSpan, id=job_id, most=MAX_SPANS + 1)
    parts = await fetch(connection, "job_part_spans", _SpanRow, id=job_id, most=MAX_SPANS + 1)
    attempts.reverse()
    waits = compute_waits(job, attempts, await _unblocked_at(connection, job))
    ends = {(item.generation, item.attempt): item.finished_at for item in attempts}
    spans = [_of_attempt(item) for item in attempts]
    spans += [_of_part(item, ends.get((item.generation, item.attempt))) for item in parts]
    spans += [await _of_wait(connection, job, item) for item in waits]
    spans.sort(key=lambda span: (span.started_at, _RANK[span.type]))
    mask = await mask_for(connection, job_id)
    follow_ups = await fetch(
        connection, "job_follow_ups", FollowUp, id=job_id, correlation=job.correlation_id or str(job_id),
        tenant=job.tenant_id, max_scanned=MAX_SCANNED, most=MAX_FOLLOW_UPS,
    )  # fmt: skip
    return Timeline(
        job=_timeline_job(job),
        now=await database_now(connection),
        spans=await masked(mask, spans[-MAX_SPANS:]),
        follow_ups=follow_ups,
        truncated=len(spans) > MAX_SPANS or len(follow_ups) == MAX_FOLLOW_UPS,
    )


_RANK: dict[SpanType, int] = {"wait": 0, "attempt": 1, "part": 2, "step": 3}
"""Order of spans that start at the same time: the enclosing one first."""


async def _unblocked_at(connection: Db, job: JobDetail) -> datetime | None:
    if not job.depends_on:
        return None
    found: datetime | None = await fetch_value(connection, "job_dependencies_finished_at", ids=job.depends_on)
    return found


async def _of_wait(connection: Db, job: JobDetail, wait: Wait) -> Span:
    reason, detail = wait.reason, None
    if wait.ended_at is None:
        explained = await why(connection, job.id)
        reason, detail = "queued" if explained.reason == "ready" else explained.reason, explained.summary
        if reason == "scheduled" and wait.reason in {"retry", "snoozed"}:
            reason = wait.reason  # more specific
    status = "waiting" if wait.ended_at is None else "over"
    return Span(
        type="wait", name=reason, reason=reason, detail=detail, status=status, started_at=wait.started_at,
        ended_at=wait.ended_at, generation=wait.generation,
    )  # fmt: skip


def _of_attempt(item: AttemptSpan) -> Span:
    texts = [text for text in (item.error_type, item.error_message) if text]
    return Span(
        type="attempt",
        name=f"attempt {item.attempt}",
        status=item.outcome,
        started_at=item.started_at,
        ended_at=item.finished_at,
        generation=item.generation,
        attempt=item.attempt,
        worker_id=item.worker_id,
        worker=item.worker,
        error=": ".join(texts) or None,
    )


def _of_part(item: _SpanRow, attempt_ended_at: datetime | None) -> Span:
    """Return the span of a part. An unfinished part ends with its attempt."""
    return Span(
        type=item.type,
        name=item.name,
        status=item.status,
        started_at=item.started_at,
        ended_at=item.finished_at or attempt_ended_at,
        generation=item.generation,
        attempt=item.attempt,
        error=item.error,
    )


def _timeline_job(job: JobDetail) -> TimelineJob:
    own = {name: getattr(job, name) for name in TimelineJob.__slots__ if name != "created_at"}
    return TimelineJob(**own, created_at=job.queued_at)
