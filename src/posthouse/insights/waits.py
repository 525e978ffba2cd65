"""Waits of a job between its attempts, reconstructed from its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from posthouse.insights.jobs import JobDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """The columns of sql/job_attempt_spans.sql.

    ``ready_at``: when the attempt could have started; None: for the last attempt the job has it, for others
    it is unknown.
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
class Blank:
    """A wait. Its reason may change while it has not ended."""

    reason: str
    started_at: datetime
    ended_at: datetime | None
    generation: int


_AFTER = {"snoozed": "snoozed", "released": "queued", "lost": "queued", "crashed": "queued"}
"""What a job waits for after an attempt with this outcome; after others, for its retry."""


def blanks(job: JobDetail, attempts: Sequence[AttemptSpan], unblocked_at: datetime | None) -> list[Blank]:
    """The waits of a job, first to last. ``unblocked_at``: when the last job that it depends on ended."""
    found = _all(job, attempts, unblocked_at)
    return [item for item in found if item.ended_at is None or item.ended_at > item.started_at]


def _all(job: JobDetail, attempts: Sequence[AttemptSpan], unblocked_at: datetime | None) -> Iterator[Blank]:
    before: AttemptSpan | None = None
    for attempt in attempts:
        if before is not None or _is_first(attempt):  # else what came before it is not kept any more
            last = attempt is attempts[-1]
            ready_at = attempt.ready_at or _ready_at(job, unblocked_at, first=before is None, last=last)
            yield from _between(job, before, ready_at, attempt.started_at, attempt.generation)
        before = attempt
    if job.place != "running" and not _was_ended_by(job, before):
        yield from _at_last(job, before, unblocked_at)


def _ready_at(job: JobDetail, unblocked_at: datetime | None, *, first: bool, last: bool) -> datetime | None:
    """Return when an attempt could have started whose record does not contain it."""
    if first and _is_held(job):
        return unblocked_at
    return job.scheduled_for if last else None


def _is_first(attempt: AttemptSpan) -> bool:
    return attempt.attempt == 1 and attempt.generation == 1


def _is_held(job: JobDetail) -> bool:
    return bool(job.depends_on) or job.order_key is not None


def _was_ended_by(job: JobDetail, attempt: AttemptSpan | None) -> bool:
    """Whether this attempt finished the job."""
    return job.finished_at is not None and attempt is not None and attempt.finished_at == job.finished_at


def _at_last(job: JobDetail, before: AttemptSpan | None, unblocked_at: datetime | None) -> Iterator[Blank]:
    """Yield the current wait, or the one in which the job was canceled."""
    ready_at = _ready_at(job, unblocked_at, first=before is None, last=True)
    yield from _between(job, before, ready_at, job.finished_at, job.generation)


def _between(
    job: JobDetail,
    before: AttemptSpan | None,
    ready_at: datetime | None,
    end: datetime | None,
    generation: int,
) -> Iterator[Blank]:
    """Yield the waits between two attempts: until it could start, and until it did. No end:
    it still waits.
    """
    reason, start = _reason_and_start(job, before, ready_at, generation)
    if start is None:
        return
    if ready_at is not None and ready_at > start and (end is None or ready_at < end):
        if end is not None or job.place == "ready":  # else it still waits for that
            yield Blank(reason=reason, started_at=start, ended_at=ready_at, generation=generation)
            reason, start = "queued", ready_at
    elif ready_at is not None and ready_at <= start:
        reason = "queued"
    yield Blank(reason=reason, started_at=start, ended_at=end, generation=generation)


def _reason_and_start(
    job: JobDetail, before: AttemptSpan | None, ready_at: datetime | None, generation: int
) -> tuple[str, datetime | None]:
    if before is None:
        held = "blocked" if job.depends_on else "ordered" if job.order_key is not None else "scheduled"
        return held, job.queued_at
    if before.generation != generation:  # it had ended, and was run again when it was ready
        return "queued", ready_at
    return _AFTER.get(before.outcome, "retry"), before.finished_at
