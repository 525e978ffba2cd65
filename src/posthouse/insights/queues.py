"""The queues: the counts of their jobs, for all overviews, and their workers and pauses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from posthouse.storage.queries import Db, fetch, fetch_value


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Counts of the jobs in a queue; ``tenant_id`` is empty for those of all tenants together.

    ``ready`` can start now, ``scheduled`` is due later, ``blocked`` waits for other jobs.
    """

    tenant_id: str = ""
    queue: str
    ready: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest_ready_at: datetime | None = None
    oldest_ready_seconds: float | None = None
    next_due_at: datetime | None = None

    @property
    def waiting(self) -> int:
        return self.scheduled + self.blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue. ``ready`` can start now, ``scheduled`` is due later, ``blocked`` waits for other jobs."""

    name: str
    ready: int
    scheduled: int
    blocked: int
    running: int
    workers: int
    oldest_ready_at: datetime | None
    oldest_ready_seconds: float | None
    next_due_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownQueue:
    """The columns of the statement queues_known."""

    name: str
    workers: int = 0
    paused_at: datetime | None = None
    paused_by: str | None = None


async def queue_counts(
    connection: Db,
    *,
    tenant: str | None = None,
    queue: str | None = None,
    by_tenant: bool = False,
    most: int | None = None,
) -> list[QueueCounts]:
    """Return the counts of each queue that has jobs, or of each tenant and queue.

    Without ``most`` it reads every queued job that it counts: do not call it for every request.
    """
    return await fetch(
        connection, "queue_counts", QueueCounts, tenant=tenant, queue=queue, by_tenant=by_tenant, most=most
    )


async def list_queues(
    connection: Db,
    *,
    tenant: str | None = None,
    queue: str | None = None,
    most: int | None = None,
    offline_after: float | None = None,
) -> list[QueueInfo]:
    """Return the queues with jobs, workers or a definition, and those that are paused, by name.

    The counts are those of one tenant, or of all.
    """
    found = await queue_counts(connection, tenant=tenant, queue=queue, most=most)
    states = await fetch(connection, "queues_known", _KnownQueue, queue=queue, offline_after=offline_after)
    counts, known = {item.queue: item for item in found}, {item.name: item for item in states}
    return [
        _info(counts.get(name) or QueueCounts(queue=name), known.get(name) or _KnownQueue(name=name))
        for name in sorted({*counts, *known})
    ]


async def get_queue(connection: Db, name: str) -> QueueInfo:
    """Return one queue; a name that is not used yet has no jobs."""
    found = await list_queues(connection, queue=name)
    return found[0] if found else _info(QueueCounts(queue=name), _KnownQueue(name=name))


def _info(counts: QueueCounts, state: _KnownQueue) -> QueueInfo:
    return QueueInfo(
        name=state.name,
        ready=counts.ready,
        scheduled=counts.scheduled,
        blocked=counts.blocked,
        running=counts.running,
        workers=state.workers,
        oldest_ready_at=counts.oldest_ready_at,
        oldest_ready_seconds=counts.oldest_ready_seconds,
        next_due_at=counts.next_due_at,
        paused_at=state.paused_at,
        paused_by=state.paused_by,
    )


async def queue_is_known(connection: Db, name: str) -> bool:
    """Return whether any job, worker or definition uses the queue."""
    return bool(await fetch_value(connection, "queue_exists", name=name))
