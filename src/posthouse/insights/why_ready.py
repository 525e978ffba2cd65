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

MOST_AHEAD = 10_000
MOST_HOLDERS = 20
SUSPECT_TURN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A live worker that has at least the queue or the kind.

    The fields are the columns of the statement job_servers.
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
    drain_asked_at: datetime | None

    @property
    def would_do(self) -> bool:
        return self.serves_queue and self.knows_kind and not self.lacks and not self.outdated

    @property
    def kept_off(self) -> bool:
        return self.disabled_at is not None or self.drain_asked_at is not None

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
    place: JobLocation,
    *,
    offline_after: float | None,
    patience: float | None,
    mismatch_seconds: float,
) -> Why:
    """Explain a ready job. ``patience`` is None if the caller may not see what workers run."""
    candidates = await fetch(
        connection,
        "job_servers",
        _Candidate,
        queue=place.queue,
        kind=place.kind,
        requires=place.requires or [],
        prefers=place.prefers or [],
        offline_after=offline_after,
    )
    able = [item for item in candidates if item.would_do and not item.kept_off]
    ahead, pace = await _line(connection, place)
    hindrances = await _hindrances(connection, place)
    causes = [
        *_paused(place),
        *(_no_worker(place, candidates, mismatch_seconds) if not able else ()),
        *_limited(place, hindrances),
        *await _left_to_others(connection, place, able, patience),
    ] or [_in_line(place, able, ahead, pace)]
    main, *others = causes
    return Why(
        job_id=place.id,
        status=place.status,
        reason=main.reason,
        summary=main.summary,
        advice=main.advice,
        also=[cause.summary for cause in others],
        until=main.until,
        since=main.since,
        limits=hindrances,
        paused_by=place.paused_by,
        missing=main.missing,
        workers=[item.server() for item in able],
        ahead=ahead,
        starts_in_seconds=_guess(ahead, pace) if main.reason == "ready" else None,
        last_error=place.last_error,
    )


async def _line(connection: Db, place: JobLocation) -> tuple[int, float | None]:
    row = await fetch_row(
        connection,
        "job_line",
        queue=place.queue,
        kind=place.kind,
        priority=place.priority,
        turn=place.turn,
        position=place.position,
        limit=MOST_AHEAD,
    )
    return row["ahead"], row["pace"]


def _guess(ahead: int, pace: float | None) -> float | None:
    return (ahead + 1) / pace if pace and ahead < MOST_AHEAD else None


def _paused(place: JobLocation) -> Iterable[_Cause]:
    if place.paused_at is not None:
        yield _Cause(
            reason="paused",
            summary=paused_summary(place),
            advice=f"resume it with: posthouse queues resume {place.queue}",
            since=place.paused_at,
        )


def _no_worker(
    place: JobLocation, candidates: Sequence[_Candidate], mismatch_seconds: float
) -> Iterable[_Cause]:
    """Yield what is missing, the smallest obstacle first."""
    what = f"queue {place.queue!r} and has a handler for kind {place.kind!r}"
    start = f"start a worker whose app defines {place.kind}: posthouse worker --app module:app"
    kept_off = [item for item in candidates if item.would_do]
    lacking = [item for item in candidates if item.serves_queue and item.knows_kind and item.lacks]
    outdated = [item for item in candidates if item.serves_queue and item.knows_kind and item.outdated]
    if kept_off:
        names = ", ".join(f"{item.name} ({_how_kept_off(item)})" for item in kept_off)
        summary = f"every worker that could run it is disabled or draining: {names}"
        yield _Cause(
            reason="no_worker", summary=summary, advice=f"posthouse workers enable {kept_off[0].name}"
        )
    elif outdated or (place.needs_newer_code and not lacking):
        yield _outdated(place, outdated, mismatch_seconds)
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
        summary = (
            f"workers have a handler for kind {place.kind!r} ({names}), but none serves queue {place.queue!r}"
        )
        advice = f"start a worker with --queue {place.queue}, or without --queue"
        yield _Cause(reason="no_worker", summary=summary, advice=advice)
    elif candidates:
        names = ", ".join(item.name for item in candidates)
        summary = (
            f"workers serve queue {place.queue!r} ({names}), but none has a handler for kind {place.kind!r}"
        )
        yield _Cause(reason="no_worker", summary=_undefined(place) + summary, advice=start)
    else:
        summary = f"no live worker serves {what}"
        yield _Cause(reason="no_worker", summary=_undefined(place) + summary, advice=start)


def _outdated(place: JobLocation, outdated: Sequence[_Candidate], mismatch_seconds: float) -> _Cause:
    names = ", ".join(item.name for item in outdated) or "none is connected now"
    return _Cause(
        reason="no_worker",
        summary=f"the handlers of the workers that serve {place.kind!r} do not accept its payload ({names}); "
        "the newest definition does, so these workers run older code. Without a worker with newer code the "
        "job goes to the dead letter",
        advice="deploy the current code and restart these workers",
        until=place.unserved_since and place.unserved_since + timedelta(seconds=mismatch_seconds),
    )


def _undefined(place: JobLocation) -> str:
    return f"{undefined_summary(place)}; " if place.lacks_definition else ""


def _how_kept_off(item: _Candidate) -> str:
    return "disabled" if item.disabled_at is not None else "draining"


async def _hindrances(connection: Db, place: JobLocation) -> list[Blocker]:
    found = []
    for row in await fetch_rows(connection, "job_limits", id=place.id):
        slot, full = row.pop("slot"), row.pop("full")
        limit = Blocker(**row)
        if full:
            holders = await fetch(connection, "slot_holders", SlotHolder, slot=slot, limit=MOST_HOLDERS)
            limit = replace(limit, holders=holders)
        found.append(limit)
    return found


def _limited(place: JobLocation, hindrances: Sequence[Blocker]) -> Iterable[_Cause]:
    for limit in hindrances:
        if limit.max_running is not None and limit.in_use >= limit.max_running:
            per = "" if limit.per == "all" else f" for its {limit.per}"
            yield _Cause(
                reason="limit",
                summary=f"limit {limit.name!r} is full{per}: {limit.in_use} of {limit.max_running} running",
                advice=f"raise it with: posthouse limits set {quote(limit.name)} --running N",
            )
    for limit in hindrances:
        if limit.seconds is not None:
            yield _Cause(
                reason="rate",
                summary=f"limit {limit.name!r} allows {shown_rate(limit.rate or 0)}: the next start is "
                f"in about {limit.seconds:.1f} s",
                until=place.now + timedelta(seconds=limit.seconds),
                advice=f"raise it with: posthouse limits set {quote(limit.name)} --rate N/s",
            )


async def _left_to_others(
    connection: Db, place: JobLocation, able: Sequence[_Candidate], patience: float | None
) -> Iterable[_Cause]:
    if patience is None or not place.prefers or not any(item.preferred for item in able):
        return ()
    until = await fetch_value(connection, "job_left_until", id=place.id, patience=patience)
    if until is None:
        return ()
    names = ", ".join(item.name for item in able if item.preferred and item.running < item.concurrency)
    return [
        _Cause(
            reason="preferred",
            summary=f"reserved for workers with {', '.join(place.prefers)} ({names}); "
            "any worker can take it afterwards",
            until=until,
        )
    ]


def _in_line(place: JobLocation, able: Sequence[_Candidate], ahead: int, pace: float | None) -> _Cause:
    count = f"{ahead:,} or more" if ahead >= MOST_AHEAD else f"{ahead:,}"
    before = f"{count} ahead of it in its lane" if ahead else "first in its lane"
    free = sum(max(0, item.concurrency - item.running) for item in able)
    guess = _guess(ahead, pace)
    starts = "" if guess is None else f"; estimated start in {_rounded(guess)}"
    return _Cause(
        reason="ready",
        summary=f"ready, {before}; {len(able)} worker(s) serve queue {place.queue!r}, "
        f"with {free:,} free slot(s){starts}",
        advice=_in_line_advice(place, able),
    )


def _rounded(seconds: float) -> str:
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{round(seconds / length)} {unit}"
    return f"{max(1, round(seconds))} s"


def _in_line_advice(place: JobLocation, able: Sequence[_Candidate]) -> str:
    if place.turn == SUSPECT_TURN:
        return "workers died while running this job: each worker runs such jobs one at a time"
    if all(item.running >= item.concurrency for item in able):
        return "all slots of these workers are busy: start more workers, or raise their concurrency"
    return ""
