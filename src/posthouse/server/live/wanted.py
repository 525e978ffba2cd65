"""The filter of an event stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from posthouse.insights.census import QueueCensus
from posthouse.insights.jobs import JobSummary

EVENTS = ("job", "log", "worker", "counters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Filter of a stream. ``tenant`` is enforced: a principal with a tenant sees no events of others."""

    tenant: str | None
    job: UUID | None = None
    correlation_id: str | None = None
    worker: UUID | None = None
    queue: str | None = None
    kind: str | None = None
    events: frozenset[str] = frozenset(EVENTS)

    @property
    def jobs(self) -> bool:
        return "job" in self.events

    @property
    def log(self) -> bool:
        return "log" in self.events and self.job is not None

    @property
    def counters(self) -> bool:
        return "counters" in self.events and self.job is None

    @property
    def workers(self) -> bool:
        """Worker events are only for principals without a tenant, because workers serve all tenants."""
        return "worker" in self.events and self.tenant is None and self.job is None

    def takes(self, job: JobSummary, earlier_worker: UUID | None = None) -> bool:
        """Return whether the filter matches the job.

        ``earlier_worker``: the worker that had the job before, so that a stream of that worker also shows
        jobs leaving it.
        """
        return (
            self.jobs
            and (self.tenant is None or job.tenant_id == self.tenant)
            and (self.job is None or job.id == self.job)
            and (self.queue is None or job.queue == self.queue)
            and (self.kind is None or job.kind == self.kind)
            and (self.correlation_id is None or job.correlation_id == self.correlation_id)
            and (self.worker is None or self.worker in {job.worker_id, earlier_worker})
        )

    def counted(self, counters: Sequence[QueueCensus]) -> list[dict[str, str | int]]:
        """Return the matching counters, summed by queue."""
        sums: dict[str, dict[str, str | int]] = {}
        for item in counters:
            if self.tenant not in {None, item.tenant_id} or self.queue not in {None, item.queue}:
                continue
            entry = sums.setdefault(item.queue, {"queue": item.queue, "ready": 0, "waiting": 0, "running": 0})
            for name in ("ready", "waiting", "running"):
                entry[name] = int(entry[name]) + int(getattr(item, name))
        return [sums[queue] for queue in sorted(sums)]
