"""Counts of jobs and workers."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.storage.queries import Db, fetch, fetch_rows

WORKER_STATUSES = ("active", "idle", "busy", "offline", "disabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCensus:
    """``ready`` can start now, ``scheduled`` is due later, ``blocked`` waits for other jobs."""

    tenant_id: str
    queue: str
    ready: int
    scheduled: int
    blocked: int
    running: int
    oldest_ready_seconds: float | None

    @property
    def waiting(self) -> int:
        return self.scheduled + self.blocked


async def census(connection: Db) -> list[QueueCensus]:
    """Of each tenant and queue that has any. Reads every queued job: not for every request."""
    return await fetch(connection, "census", QueueCensus)


async def worker_counts(connection: Db, *, offline_after: float | None = None) -> dict[str, int]:
    """How many workers have each status; offline are those that left within the last hour."""
    rows = await fetch_rows(connection, "worker_counts", offline_after=offline_after)
    found = {row["status"]: row["workers"] for row in rows}
    return {status: found.get(status, 0) for status in WORKER_STATUSES}
