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

PREFERENCE_WAIT = 10.0
"""Default time for which a job waits for a worker that it prefers, in seconds: two heartbeats."""

MISMATCH_SECONDS = 3600.0
"""Default time for which a job waits for a worker with newer code, in seconds."""


async def why(
    connection: Db,
    job_id: UUID,
    *,
    tenant: str | None = None,
    offline_after: float | None = None,
    preference_wait: float = PREFERENCE_WAIT,
    mismatch_seconds: float = MISMATCH_SECONDS,
) -> Why:
    """Return what a job waits for, which worker runs it, or how it ended."""
    found = await fetch(connection, "job_location", JobLocation, id=job_id, tenant=tenant)
    if not found:
        raise JobNotFound(f"job {job_id} does not exist")
    (location,) = await masked(await mask_for(connection, job_id), found[:1])
    if await call(connection, "tenant") is None:
        return await _explain(connection, location, offline_after, preference_wait, mismatch_seconds)
    return mask_for_tenant(
        await _explain(connection, location, offline_after, None, mismatch_seconds), location
    )


async def _explain(
    connection: Db,
    location: JobLocation,
    offline_after: float | None,
    preference_wait: float | None,
    mismatch_seconds: float,
) -> Why:
    match location.job_table:
        case "ready":
            return await why_ready(
                connection,
                location,
                offline_after=offline_after,
                preference_wait=preference_wait,
                mismatch_seconds=mismatch_seconds,
            )
        case "waiting":
            return await _waiting(connection, location)
        case "running":
            return _running(location)
        case _:
            return _ended(location)


def _jobs(count: int) -> str:
    return "another job" if count == 1 else f"{count} other jobs"


async def _waiting(connection: Db, location: JobLocation) -> Why:
    blockers = await fetch(connection, "job_dependencies", Dependency, id=location.id)
    also = [paused_summary(location)] if location.paused_at else []
    if location.lacks_definition:
        also.append(undefined_summary(location))
    if blockers:
        return Why(
            job_id=location.id,
            status=location.status,
            reason="blocked",
            summary=f"waiting for {_jobs(len(blockers))} to end",
            advice=_blocked_advice(blockers),
            until=location.due_at if location.due_at and location.due_at > location.now else None,
            blocked_by=blockers,
            also=also,
            last_error=location.last_error,
        )
    overdue = location.due_at is not None and location.due_at <= location.now
    tried = (
        f" after attempt {location.attempt_count} of {location.max_attempts}"
        if location.attempt_count
        else ""
    )
    return Why(
        job_id=location.id,
        status=location.status,
        reason="due" if overdue else "scheduled",
        summary="due: a keeper will make it ready" if overdue else f"scheduled for later{tried}",
        advice="if it stays due, no keeper is running: start one with `posthouse keeper`" if overdue else "",
        until=location.due_at,
        also=also,
        last_error=location.last_error,
    )


def _blocked_advice(blockers: list[Dependency]) -> str:
    ended = [blocker for blocker in blockers if blocker.status in {"failed", "canceled", "dead_letter"}]
    if ended:
        return f"{ended[0].id} did not succeed: retry it with `posthouse jobs retry {ended[0].id}`"
    return ""


def _running(location: JobLocation) -> Why:
    name = location.worker_name or str(location.worker_id)
    canceling = location.cancel_requested_at is not None
    expired = location.lease_expires_at is not None and location.lease_expires_at < location.now
    return Why(
        job_id=location.id,
        status=location.status,
        reason="running",
        summary=f"running on {name}, attempt {location.attempt_count} of {location.max_attempts}"
        + ("; cancellation was requested" if canceling else "")
        + ("; its lease has expired" if expired else ""),
        advice="a keeper will rescue it; check with `posthouse doctor` that one is running"
        if expired
        else "",
        worker_id=location.worker_id,
        since=location.attempt_started_at,
        lease_expires_at=location.lease_expires_at,
        last_error=location.last_error,
    )


def _ended(location: JobLocation) -> Why:
    unsuccessful = location.status != "succeeded"
    return Why(
        job_id=location.id,
        status=location.status,
        reason="ended",
        summary=f"ended with status {location.status}",
        advice=f"run it again with: posthouse jobs retry {location.id}" if unsuccessful else "",
        worker_id=location.worker_id,
        since=location.finished_at,
        last_error=location.last_error,
    )


_OWN = {"tenant", "key"}
"""Limits that count each tenant separately."""


def mask_for_tenant(why: Why, location: JobLocation) -> Why:
    return replace(
        why,
        summary=_summary(why, location),
        advice="",
        also=[],
        blocked_by=[blocker for blocker in why.blocked_by if blocker.status is not None],
        limits=[_limit(limit) for limit in why.limits],
        paused_by=None,
        workers=[],
        starts_in_seconds=None,
    )


def _summary(why: Why, location: JobLocation) -> str:
    match why.reason:
        case "paused":
            return f"queue {location.queue!r} is paused"
        case "no_worker":
            return _unserved(location)
        case "limit":
            return f"limit {why.limits[0].name!r} is full"
        case "preferred":
            return "reserved for a preferred worker; any worker can take it afterwards"
        case "ready":
            return f"ready, {why.ahead:,} ahead of it" if why.ahead else "ready, none ahead of it"
        case _:
            return why.summary


def _unserved(location: JobLocation) -> str:
    if location.needs_newer_code:
        return (
            f"the workers that serve kind {location.kind!r} run older code, which does not accept its payload"
        )
    if location.lacks_definition:
        return undefined_summary(location)
    return f"no live worker serves queue {location.queue!r} with kind {location.kind!r}"


def _limit(limit: Blocker) -> Blocker:
    return limit if limit.per in _OWN else replace(limit, in_use=len(limit.holders), tokens=None)
