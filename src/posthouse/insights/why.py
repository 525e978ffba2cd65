"""Why a job has not started, is running, or has ended."""

from __future__ import annotations

from uuid import UUID

from posthouse.errors import JobNotFound
from posthouse.insights.masking import mask_for, masked
from posthouse.insights.reasons import Blocker, Place, Why, paused_summary, undefined_summary
from posthouse.insights.why_ready import why_ready
from posthouse.insights.why_shared import as_tenants_see
from posthouse.storage.queries import Db, call, fetch

PATIENCE = 10.0
"""Seconds for which a job is left to a worker that it prefers: two heartbeats, as the settings have it."""

MISMATCH_SECONDS = 3600.0
"""How long a job waits for a worker with newer code, as the settings have it."""


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
    found = await fetch(connection, "job_place", Place, id=job_id, tenant=tenant)
    if not found:
        raise JobNotFound(f"job {job_id} does not exist")
    (place,) = await masked(await mask_for(connection, job_id), found[:1])
    if await call(connection, "tenant") is None:
        return await _told(connection, place, offline_after, patience, mismatch_seconds)
    return as_tenants_see(await _told(connection, place, offline_after, None, mismatch_seconds), place)


async def _told(
    connection: Db,
    place: Place,
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


async def _waiting(connection: Db, place: Place) -> Why:
    blockers = await fetch(connection, "job_blockers", Blocker, id=place.id)
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


def _blocked_advice(blockers: list[Blocker]) -> str:
    ended = [blocker for blocker in blockers if blocker.status in {"failed", "canceled", "dead_letter"}]
    if ended:
        return f"{ended[0].id} did not succeed: retry it with `posthouse jobs retry {ended[0].id}`"
    return ""


def _running(place: Place) -> Why:
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


def _ended(place: Place) -> Why:
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
