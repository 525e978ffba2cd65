"""Changes for event streams. Polled several times a second, so each query is as short as possible."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from posthouse.core.ids import first_id_at
from posthouse.insights.jobs import JobSummary
from posthouse.insights.masking import DEFAULT_MASK
from posthouse.storage.queries import Db, calling, fetch, fetch_rows, query

FinishedTable = Literal["history", "past_attempts"]

FINISHED_WITHIN = timedelta(minutes=10)
"""Finished jobs are reported as changed only if they finished within this time."""
MAX_CLOCK_SKEW = timedelta(seconds=2)
"""Maximum clock difference between a process that enqueues and the database.

An id contains the time of its creator's clock. It is small here, because each poll reads this much
of the ids again; a job from a clock with a larger difference is seen when it starts.
"""
MAX_COMMIT_DELAY = timedelta(seconds=5)
"""Maximum delay until a recorded change is visible: its transaction must be committed first."""


class DatabaseClock(NamedTuple):
    """The time of the database for records (``now``) and for ids (``id_clock``)."""

    now: datetime
    id_clock: datetime


class Seen(NamedTuple):
    """A running job: its worker, and a number that changes with every report."""

    worker: bytes
    state: int


@dataclass(frozen=True, slots=True)
class ChangedJobs:
    """The jobs that changed. ``left_out``: number of further changed jobs by tenant."""

    jobs: list[JobSummary]
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The changing fields of a worker."""

    id: UUID
    name: str
    hostname: str
    status: Literal["active", "idle", "busy", "offline", "disabled"]
    running: int
    concurrency: int
    queues: list[str]
    disabled_at: datetime | None
    drain_requested_at: datetime | None


async def clock(connection: Db) -> DatabaseClock:
    row = await (await connection.execute(query("live_clock"))).fetchone()
    assert row is not None
    return DatabaseClock(*row)


async def running_now(connection: Db, ids: Collection[UUID] | None = None) -> dict[bytes, Seen]:
    """Return all running jobs, or those with these ids, by the bytes of the id."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query("live_running"), {"ids": None if ids is None else list(ids)})
        return {row[0]: Seen(row[1], row[2]) for row in await cursor.fetchall()}


async def queued_between(connection: Db, since: datetime, until: datetime, most: int) -> list[UUID]:
    """Return the queued jobs whose ids were created in this period."""
    low, high = first_id_at(since - MAX_CLOCK_SKEW), first_id_at(until + MAX_CLOCK_SKEW)
    cursor = await connection.execute(
        query("live_enqueued_between"), {"low": low, "high": high, "most": most}
    )
    return [row[0] for row in await cursor.fetchall()]


async def recently_finished(
    connection: Db, where: FinishedTable, since: datetime, pages: int
) -> list[tuple[UUID, datetime]]:
    """Return jobs with an outcome recorded since then, and when. A limited number of pages is read."""
    wanted = {"table": where, "since": since - MAX_COMMIT_DELAY, "pages": pages}
    cursor = await connection.execute(calling("recently_finished_ids", *wanted), wanted)
    return await cursor.fetchall()


async def changed_since(connection: Db, since: datetime, at: DatabaseClock, most: int) -> list[UUID] | None:
    """Return the jobs that may have changed since a moment before ``at``; None if there are too many."""
    low = first_id_at(since + (at.id_clock - at.now) - MAX_CLOCK_SKEW)
    wanted = {"since": since - MAX_COMMIT_DELAY, "low": low, "most": most}
    cursor = await connection.execute(query("live_changed_ids"), wanted)
    ids = [row[0] for row in await cursor.fetchall()]
    return None if len(ids) > most else ids


async def changed_jobs(
    connection: Db,
    ids: Iterable[UUID],
    *,
    ended_since: datetime | None = None,
    tenants: Collection[str] | None = None,
    most: int = 1000,
) -> ChangedJobs:
    """Return the newest of these jobs per requested tenant (None: all tenants), oldest first."""
    rows = await fetch_rows(
        connection,
        "live_changed_jobs",
        ids=list(ids),
        since=ended_since,
        tenants=None if tenants is None else list(tenants),
        most=most,
    )
    left_out = {row["tenant_id"]: row["of_tenant"] - most for row in rows if row["of_tenant"] > most}
    for row in rows:
        del row["of_tenant"], row["nth"]
    jobs = [DEFAULT_MASK.of(JobSummary(**row)) for row in rows]
    return ChangedJobs(sorted(jobs, key=lambda job: job.id), left_out)


async def worker_states(connection: Db, *, offline_after: float | None = None) -> list[WorkerState]:
    return await fetch(connection, "live_workers", WorkerState, offline_after=offline_after)


async def log_ends(connection: Db, ids: Collection[UUID]) -> dict[UUID, int]:
    """Return the number of the last log line of each of these jobs."""
    rows = await fetch_rows(connection, "live_log_sequences", ids=list(ids))
    return {row["id"]: row["sequence"] for row in rows if row["sequence"] is not None}
