"""Why a job is where it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from posthouse.errors import JobNotFound
from posthouse.insights.overview import OFFLINE_AFTER
from posthouse.storage.reading import Db, fetch, fetch_row

MOST_AHEAD = 10_000
SUSPECT_TURN = 0

Reason: TypeAlias = Literal["scheduled", "due", "blocked", "no_worker", "ready", "running", "ended"]


@dataclass(frozen=True, slots=True)
class Blocker:
    """A job that must end first. No status: it is no longer kept."""

    id: UUID
    kind: str | None
    status: str | None


@dataclass(frozen=True, slots=True)
class Server:
    """A live worker that could take the job."""

    id: UUID
    name: str
    concurrency: int
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    job_id: UUID
    status: str
    reason: Reason
    summary: str
    advice: str = ""
    until: datetime | None = None
    blocked_by: list[Blocker] = field(default_factory=list)
    workers: list[Server] = field(default_factory=list)
    ahead: int | None = None
    worker_id: UUID | None = None
    since: datetime | None = None
    lease_expires_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The columns of sql/job_place.sql."""

    id: UUID
    kind: str
    queue: str
    tenant_id: str
    status: str
    place: str
    attempt_count: int
    max_attempts: int
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
    turn: int | None
    now: datetime


async def why(
    connection: Db, job_id: UUID, *, tenant: str | None = None, offline_after: float = OFFLINE_AFTER
) -> Why:
    """What a job waits for, or who runs it, or how it ended."""
    found = await fetch(connection, "job_place", _Place, id=job_id, tenant=tenant)
    if not found:
        raise JobNotFound(f"there is no job {job_id}")
    place = found[0]
    match place.place:
        case "ready":
            return await _ready(connection, place, offline_after)
        case "waiting":
            return await _waiting(connection, place)
        case "running":
            return _running(place)
        case _:
            return _ended(place)


async def _ready(connection: Db, place: _Place, offline_after: float) -> Why:
    servers = await fetch(
        connection,
        "job_servers",
        Server,
        queue=place.queue,
        kind=place.kind,
        offline_after=offline_after,
    )
    line = await fetch_row(connection, "job_line", lane=place.lane, position=place.position, limit=MOST_AHEAD)
    ahead = int(line["ahead"])
    if not servers:
        return Why(
            job_id=place.id,
            status=place.status,
            reason="no_worker",
            summary=f"no worker that is alive serves queue {place.queue!r} and knows kind {place.kind!r}",
            advice=f"start one whose app defines {place.kind}: posthouse worker --app module:app",
            ahead=ahead,
            last_error=place.last_error,
        )
    return Why(
        job_id=place.id,
        status=place.status,
        reason="ready",
        summary=_ready_summary(place, servers, ahead),
        advice=_ready_advice(place, servers),
        workers=servers,
        ahead=ahead,
        last_error=place.last_error,
    )


def _ready_summary(place: _Place, servers: list[Server], ahead: int) -> str:
    count = f"{ahead:,} or more" if ahead >= MOST_AHEAD else f"{ahead:,}"
    before = f"{count} before it in its line" if ahead else "first in its line"
    free = sum(max(0, server.concurrency - server.running) for server in servers)
    return (
        f"ready, {before}; {len(servers)} worker(s) serve queue {place.queue!r}, with {free:,} free slot(s)"
    )


def _ready_advice(place: _Place, servers: list[Server]) -> str:
    if place.turn == SUSPECT_TURN:
        return "workers died with this job: each worker runs such jobs one at a time"
    if all(server.running >= server.concurrency for server in servers):
        return "all of these workers are full: start more, or raise their concurrency"
    return ""


async def _waiting(connection: Db, place: _Place) -> Why:
    blockers = await fetch(connection, "job_blockers", Blocker, id=place.id)
    if blockers:
        return Why(
            job_id=place.id,
            status=place.status,
            reason="blocked",
            summary=f"waits for {len(blockers)} other job(s) to end",
            advice=_blocked_advice(blockers),
            until=place.due_at if place.due_at and place.due_at > place.now else None,
            blocked_by=blockers,
            last_error=place.last_error,
        )
    overdue = place.due_at is not None and place.due_at <= place.now
    tried = f" after attempt {place.attempt_count} of {place.max_attempts}" if place.attempt_count else ""
    return Why(
        job_id=place.id,
        status=place.status,
        reason="due" if overdue else "scheduled",
        summary="due, and about to be moved into the line" if overdue else f"scheduled for later{tried}",
        advice="if it stays here, no keeper is running: start one with `posthouse keeper`" if overdue else "",
        until=place.due_at,
        last_error=place.last_error,
    )


def _blocked_advice(blockers: list[Blocker]) -> str:
    ended = [blocker for blocker in blockers if blocker.status in {"failed", "canceled", "dead_letter"}]
    if ended:
        return f"{ended[0].id} did not succeed: retry it with `posthouse jobs retry {ended[0].id}`"
    return ""


def _running(place: _Place) -> Why:
    name = place.worker_name or str(place.worker_id)
    canceling = place.cancel_requested_at is not None
    expired = place.lease_expires_at is not None and place.lease_expires_at < place.now
    return Why(
        job_id=place.id,
        status=place.status,
        reason="running",
        summary=f"runs on {name}, attempt {place.attempt_count} of {place.max_attempts}"
        + (", and has been told to stop" if canceling else "")
        + ("; its lease has run out" if expired else ""),
        advice="a keeper gives it to another worker: is one running? see `posthouse doctor`"
        if expired
        else "",
        worker_id=place.worker_id,
        since=place.attempt_started_at,
        lease_expires_at=place.lease_expires_at,
        last_error=place.last_error,
    )


def _ended(place: _Place) -> Why:
    unsuccessful = place.status != "succeeded"
    return Why(
        job_id=place.id,
        status=place.status,
        reason="ended",
        summary=f"ended as {place.status}",
        advice=f"to run it again: posthouse jobs retry {place.id}" if unsuccessful else "",
        worker_id=place.worker_id,
        since=place.finished_at,
        last_error=place.last_error,
    )
