"""Explain why a job has not started, is running, or has ended.

Workers and limits are shared by tenants. A caller with access to one tenant may learn that a limit is full,
but not which jobs fill it, how many run, or on which machines.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from posthouse.errors import JobNotFound
from posthouse.insights.masking import mask_for, masked
from posthouse.insights.reasons import (
    Blocker,
    Dependency,
    JobLocation,
    Why,
    paused_summary,
    undefined_summary,
)
from posthouse.insights.why_ready import why_ready
from posthouse.storage.queries import Db, call, fetch

PATIENCE = 10.0
"""Default time for which a job waits for a worker that it prefers, in seconds: two heartbeats."""

MISMATCH_SECONDS = 3600.0
"""Default time for which a job waits for a worker with newer code, in seconds."""


async def why(
    connection: Db,
    job_id: UUID,
    *,
    tenant: str | None = None,
    offline_after: float | None = None,
    patience: float = PATIENCE,
    mismatch_seconds: float = MISMATCH_SECONDS,
) -> Why:
    """Return what a job waits for, which worker runs it, or how it ended."""
    found = await fetch(connection, "job_place", JobLocation, id=job_id, tenant=tenant)
    if not found:
        raise JobNotFound(f"job {job_id} does not exist")
    (place,) = await masked(await mask_for(connection, job_id), found[:1])
    if await call(connection, "tenant") is None:
        return await _told(connection, place, offline_after, patience, mismatch_seconds)
    return as_tenants_see(await _told(connection, place, offline_after, None, mismatch_seconds), place)


async def _told(
    connection: Db,
    place: JobLocation,
    offline_after: float | None,
    patience: float | None,
    mismatch_seconds: float,
) -> Why:
    match place.place:
        case "ready":
            return await why_ready(
                connection,
                place,
                offline_after=offline_after,
                patience=patience,
                mismatch_seconds=mismatch_seconds,
            )
        case "waiting":
            return await _waiting(connection, place)
        case "running":
            return _running(place)
        case _:
            return _ended(place)


def _jobs(count: int) -> str:
    return "another job" if count == 1 else f"{count} other jobs"


async def _waiting(connection: Db, place: JobLocation) -> Why:
    blockers = await fetch(connection, "job_blockers", Dependency, id=place.id)
    also = [paused_summary(place)] if place.paused_at else []
    if place.lacks_definition:
        also.append(undefined_summary(place))
    if blockers:
        return Why(
            job_id=place.id,
            status=place.status,
            reason="blocked",
            summary=f"waiting for {_jobs(len(blockers))} to end",
            advice=_blocked_advice(blockers),
            until=place.due_at if place.due_at and place.due_at > place.now else None,
            blocked_by=blockers,
            also=also,
            last_error=place.last_error,
        )
    overdue = place.due_at is not None and place.due_at <= place.now
    tried = f" after attempt {place.attempt_count} of {place.max_attempts}" if place.attempt_count else ""
    return Why(
        job_id=place.id,
        status=place.status,
        reason="due" if overdue else "scheduled",
        summary="due: a keeper will make it ready" if overdue else f"scheduled for later{tried}",
        advice="if it stays due, no keeper is running: start one with `posthouse keeper`" if overdue else "",
        until=place.due_at,
        also=also,
        last_error=place.last_error,
    )


def _blocked_advice(blockers: list[Dependency]) -> str:
    ended = [blocker for blocker in blockers if blocker.status in {"failed", "canceled", "dead_letter"}]
    if ended:
        return f"{ended[0].id} did not succeed: retry it with `posthouse jobs retry {ended[0].id}`"
    return ""


def _running(place: JobLocation) -> Why:
    name = place.worker_name or str(place.worker_id)
    canceling = place.cancel_requested_at is not None
    expired = place.lease_expires_at is not None and place.lease_expires_at < place.now
    return Why(
        job_id=place.id,
        status=place.status,
        reason="running",
        summary=f"running on {name}, attempt {place.attempt_count} of {place.max_attempts}"
        + ("; cancellation was requested" if canceling else "")
        + ("; its lease has expired" if expired else ""),
        advice="a keeper will rescue it; check with `posthouse doctor` that one is running"
        if expired
        else "",
        worker_id=place.worker_id,
        since=place.attempt_started_at,
        lease_expires_at=place.lease_expires_at,
        last_error=place.last_error,
    )


def _ended(place: JobLocation) -> Why:
    unsuccessful = place.status != "succeeded"
    return Why(
        job_id=place.id,
        status=place.status,
        reason="ended",
        summary=f"ended with status {place.status}",
        advice=f"run it again with: posthouse jobs retry {place.id}" if unsuccessful else "",
        worker_id=place.worker_id,
        since=place.finished_at,
        last_error=place.last_error,
    )


_OWN = {"tenant", "key"}
"""Limits that count each tenant separately."""


def as_tenants_see(why: Why, place: JobLocation) -> Why:
    return replace(
        why,
        summary=_summary(why, place),
        advice="",
        also=[],
        blocked_by=[blocker for blocker in why.blocked_by if blocker.status is not None],
        limits=[_limit(limit) for limit in why.limits],
        paused_by=None,
        workers=[],
        starts_in_seconds=None,
    )


def _summary(why: Why, place: JobLocation) -> str:
    match why.reason:
        case "paused":
            return f"queue {place.queue!r} is paused"
        case "no_worker":
            return _unserved(place)
        case "limit":
            return f"limit {why.limits[0].name!r} is full"
        case "preferred":
            return "reserved for a preferred worker; any worker can take it afterwards"
        case "ready":
            return f"ready, {why.ahead:,} ahead of it" if why.ahead else "ready, none ahead of it"
        case _:
            return why.summary


def _unserved(place: JobLocation) -> str:
    if place.needs_newer_code:
        return f"the workers that serve kind {place.kind!r} run older code, which does not accept its payload"
    if place.lacks_definition:
        return undefined_summary(place)
    return f"no live worker serves queue {place.queue!r} with kind {place.kind!r}"


def _limit(limit: Blocker) -> Blocker:
    return limit if limit.per in _OWN else replace(limit, in_use=len(limit.holders), tokens=None)
