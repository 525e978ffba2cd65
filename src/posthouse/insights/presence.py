"""The workers that are online and the jobs that wait, within what a caller may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posthouse.insights.census import QueueCensus, census
from posthouse.storage.queries import Db, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerScope:
    """``only_tenant``: the tenant of the worker's key; None for workers that serve all tenants."""

    only_tenant: str | None
    queues: list[str]


@dataclass(frozen=True, slots=True)
class Presence:
    """Workers that are online, and the counts of all queues."""

    online: list[WorkerScope]
    counted: list[QueueCensus]

    def active_workers(self, tenant: str | None, queues: Sequence[str] | None) -> int:
        """Return the number of workers of this tenant and these queues; None: of all."""
        return sum(
            (tenant is None or worker.only_tenant == tenant)
            and (queues is None or not set(queues).isdisjoint(worker.queues))
            for worker in self.online
        )

    def pending_jobs(self, tenant: str | None, queues: Sequence[str] | None) -> int:
        """Return the number of queued jobs of this tenant and these queues; None: of all."""
        return sum(
            item.ready + item.waiting
            for item in self.counted
            if (tenant is None or item.tenant_id == tenant) and (queues is None or item.queue in queues)
        )


async def presence(connection: Db, *, offline_after: float | None = None) -> Presence:
    """Return who is online and what waits. Reads every queued job: not for every request."""
    online = await fetch(connection, "workers_online", WorkerScope, offline_after=offline_after)
    return Presence(online, await census(connection))
