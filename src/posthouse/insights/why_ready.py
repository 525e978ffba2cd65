"""Explain why a ready job has not started: its queue, workers, limits, or jobs ahead of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from shlex import quote
from uuid import UUID

from posthouse.core.limit import shown_rate
from posthouse.insights.reasons import (
    Blocker,
    CandidateWorker,
    JobLocation,
    Reason,
    SlotHolder,
    Why,
    paused_summary,
    undefined_summary,
)
from posthouse.storage.queries import Db, fetch, fetch_row, fetch_rows, fetch_value

MAX_AHEAD = 10_000
MAX_HOLDERS = 20
SUSPECT_RANK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A live worker that has at least the queue or the kind.

    The fields are the columns of the statement job_candidate_workers.
    """

    id: UUID
    name: str
    concurrency: int
    running: int
    serves_queue: bool
    knows_kind: bool
    lacks: list[str]
    outdated: bool
    preferred: bool | None
    disabled_at: datetime | None
    drain_requested_at: datetime | None

    @property
    def can_run(self) -> bool:
        return self.serves_queue and self.knows_kind and not self.lacks and not self.outdated

    @property
    def is_unavailable(self) -> bool:
        return self.disabled_at is not None or self.drain_requested_at is not None

    def server(self) -> CandidateWorker:
        return CandidateWorker(self.id, self.name, self.concurrency, self.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    reason: Reason
    summary: str
    advice: str = ""
    until: datetime | None = None
    since: datetime | None = None
    missing: list[str] = field(default_factory=list)


async def why_ready(
    connection: Db,
    location: JobLocation,
    *,
    offline_after: float | None,
    preference_wait: float | None,
    mismatch_seconds: float,
) -> Why:
    """Explain a ready job. ``preference_wait`` is None if the caller may not see what workers run."""
    candidates = await fetch(
        connection,
        "job_candidate_workers",
        _Candidate,
        queue=location.queue,
        kind=location.kind,
        requires=location.requires or [],
        prefers=location.prefers or [],
        offline_after=offline_after,
    )
    able = [item for item in candidates if item.can_run and not item.is_unavailable]
    ahead, pace = await _queue_position(connection, location)
    blocking = await _blocking_limits(connection, location)
    causes = [
        *_paused(location),
        *(_explain_no_worker(location, candidates, mismatch_seconds) if not able else ()),
        *_limited(location, blocking),
        *await _reserved(connection, location, able, preference_wait),
    ] or [_next_in_lane(location, able, ahead, pace)]
    main, *others = causes
    return Why(
        job_id=location.id,
        status=location.status,
        reason=main.reason,
        summary=main.summary,
        advice=main.advice,
        also=[cause.summary for cause in others],
        until=main.until,
        since=main.since,
        limits=blocking,
        paused_by=location.paused_by,
        missing=main.missing,
        workers=[item.server() for item in able],
        ahead=ahead,
        starts_in_seconds=_estimate_wait(ahead, pace) if main.reason == "ready" else None,
        last_error=location.last_error,
    )


async def _queue_position(connection: Db, location: JobLocation) -> tuple[int, float | None]:
    row = await fetch_row(
        connection,
        "job_queue_position",
        queue=location.queue,
        kind=location.kind,
        priority=location.priority,
        rank=location.rank,
        position=location.position,
        limit=MAX_AHEAD,
    )
    return row["ahead"], row["pace"]


def _estimate_wait(ahead: int, pace: float | None) -> float | None:
    return (ahead + 1) / pace if pace and ahead < MAX_AHEAD else None


def _paused(location: JobLocation) -> Iterable[_Cause]:
    if location.paused_at is not None:
        yield _Cause(
            reason="paused",
            summary=paused_summary(location),
            advice=f"resume it with: posthouse queues resume {location.queue}",
            since=location.paused_at,
        )


def _explain_no_worker(
    location: JobLocation, candidates: Sequence[_Candidate], mismatch_seconds: float
) -> Iterable[_Cause]:
    """Yield what is missing, the smallest obstacle first."""
    kind, queue = location.kind, location.queue
    what = f"queue {queue!r} and has a handler for kind {kind!r}"
    start = f"start a worker whose app defines {location.kind}: posthouse worker --app module:app"
    unavailable = [item for item in candidates if item.can_run]
    lacking = [item for item in candidates if item.serves_queue and item.knows_kind and item.lacks]
    outdated = [item for item in candidates if item.serves_queue and item.knows_kind and item.outdated]
    if unavailable:
        names = ", ".join(f"{item.name} ({_unavailable_reason(item)})" for item in unavailable)
        summary = f"every worker that could run it is disabled or draining: {names}"
        yield _Cause(
            reason="no_worker", summary=summary, advice=f"posthouse workers enable {unavailable[0].name}"
        )
    elif outdated or (location.needs_newer_code and not lacking):
        yield _outdated(location, outdated, mismatch_seconds)
    elif lacking:
        missing = min((item.lacks for item in lacking), key=len)
        yield _Cause(
            reason="no_worker",
            summary=f"no worker that serves {what} has the capability {', '.join(missing)}",
            advice=f"start one: posthouse worker --app module:app --capability {missing[0]}",
            missing=missing,
        )
    elif any(item.knows_kind for item in candidates):
        names = ", ".join(item.name for item in candidates if item.knows_kind)
        summary = f"workers have a handler for kind {kind!r} ({names}), but none serves queue {queue!r}"
        advice = f"start a worker with --queue {location.queue}, or without --queue"
        yield _Cause(reason="no_worker", summary=summary, advice=advice)
    elif candidates:
        names = ", ".join(item.name for item in candidates)
        summary = f"workers serve queue {queue!r} ({names}), but none has a handler for kind {kind!r}"
        yield _Cause(reason="no_worker", summary=_undefined(location) + summary, advice=start)
    else:
        summary = f"no live worker serves {what}"
        yield _Cause(reason="no_worker", summary=_undefined(location) + summary, advice=start)


def _outdated(location: JobLocation, outdated: Sequence[_Candidate], mismatch_seconds: float) -> _Cause:
    names = ", ".join(item.name for item in outdated) or "none is connected now"
    return _Cause(
        reason="no_worker",
        summary=f"the handlers of the workers that serve {location.kind!r} do not accept its payload "
        f"({names}); the newest definition does, so these workers run older code. "
        "Without a worker with newer code the job goes to the dead letter",
        advice="deploy the current code and restart these workers",
        until=location.unserved_since and location.unserved_since + timedelta(seconds=mismatch_seconds),
    )


def _undefined(location: JobLocation) -> str:
    return f"{undefined_summary(location)}; " if location.lacks_definition else ""


def _unavailable_reason(item: _Candidate) -> str:
    return "disabled" if item.disabled_at is not None else "draining"


async def _blocking_limits(connection: Db, location: JobLocation) -> list[Blocker]:
    found = []
    for row in await fetch_rows(connection, "job_blocking_limits", id=location.id):
        slot, full = row.pop("slot"), row.pop("full")
        limit = Blocker(**row)
        if full:
            holders = await fetch(connection, "limit_slot_jobs", SlotHolder, slot=slot, limit=MAX_HOLDERS)
            limit = replace(limit, holders=holders)
        found.append(limit)
    return found


def _limited(location: JobLocation, blocking: Sequence[Blocker]) -> Iterable[_Cause]:
    for limit in blocking:
        if limit.max_running is not None and limit.in_use >= limit.max_running:
            per = "" if limit.per == "all" else f" for its {limit.per}"
            yield _Cause(
                reason="limit",
                summary=f"limit {limit.name!r} is full{per}: {limit.in_use} of {limit.max_running} running",
                advice=f"raise it with: posthouse limits set {quote(limit.name)} --running N",
            )
    for limit in blocking:
        if limit.seconds is not None:
            yield _Cause(
                reason="rate",
                summary=f"limit {limit.name!r} allows {shown_rate(limit.rate or 0)}: the next start is "
                f"in about {limit.seconds:.1f} s",
                until=location.now + timedelta(seconds=limit.seconds),
                advice=f"raise it with: posthouse limits set {quote(limit.name)} --rate N/s",
            )


async def _reserved(
    connection: Db, location: JobLocation, able: Sequence[_Candidate], preference_wait: float | None
) -> Iterable[_Cause]:
    if preference_wait is None or not location.prefers or not any(item.preferred for item in able):
        return ()
    until = await fetch_value(
        connection, "job_reserved_until", id=location.id, preference_wait=preference_wait
    )
    if until is None:
        return ()
    names = ", ".join(item.name for item in able if item.preferred and item.running < item.concurrency)
    return [
        _Cause(
            reason="preferred",
            summary=f"reserved for workers with {', '.join(location.prefers)} ({names}); "
            "any worker can take it afterwards",
            until=until,
        )
    ]


def _next_in_lane(
    location: JobLocation, able: Sequence[_Candidate], ahead: int, pace: float | None
) -> _Cause:
    count = f"{ahead:,} or more" if ahead >= MAX_AHEAD else f"{ahead:,}"
    before = f"{count} ahead of it in its lane" if ahead else "first in its lane"
    free = sum(max(0, item.concurrency - item.running) for item in able)
    guess = _estimate_wait(ahead, pace)
    starts = "" if guess is None else f"; estimated start in {_rounded(guess)}"
    return _Cause(
        reason="ready",
        summary=f"ready, {before}; {len(able)} worker(s) serve queue {location.queue!r}, "
        f"with {free:,} free slot(s){starts}",
        advice=_next_in_lane_advice(location, able),
    )


def _rounded(seconds: float) -> str:
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{round(seconds / length)} {unit}"
    return f"{max(1, round(seconds))} s"


def _next_in_lane_advice(location: JobLocation, able: Sequence[_Candidate]) -> str:
    if location.rank == SUSPECT_RANK:
        return "workers died while running this job: each worker runs such jobs one at a time"
    if all(item.running >= item.concurrency for item in able):
        return "all slots of these workers are busy: start more workers, or raise their concurrency"
    return ""
