"""Subscriptions to live events: the filter of a client, and the events queued for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from posthouse.insights.jobs import JobSummary
from posthouse.insights.queues import QueueCounts
from posthouse.waiting import wait_for_event

MAX_WAITING = 1000


class StreamEvent(NamedTuple):
    name: str
    data: bytes  # JSON


class Subscription:
    def __init__(
        self, wanted: StreamFilter, principal: str, most: int = MAX_WAITING, *, tenant: str | None = None
    ) -> None:
        self.wanted = wanted
        self.principal = principal
        self.tenant = tenant
        """Tenant of the credential, not of the events."""
        self.at = 0
        """Database time in microseconds up to which all events were queued."""
        self.log_end = 0
        """Sequence of the last log line that can be read."""
        self.counters = b""
        self._most = most
        self._waiting: dict[tuple[str, object], StreamEvent] = {}
        self._dropped = 0
        self._reset = False
        self._ending: str | None = None
        self._ready = asyncio.Event()

    def publish(self, event: StreamEvent, key: object) -> None:
        """Queue an event. It replaces an older queued event with the same key."""
        entry = (event.name, key)
        if entry in self._waiting or len(self._waiting) < self._most:
            self._waiting[entry] = event
        else:
            self._dropped += 1
        self._ready.set()

    def drop(self, count: int) -> None:
        self._dropped += count
        self._ready.set()

    def reset(self) -> None:
        """Tell the client to reload, because events were lost."""
        self._waiting.clear()
        self._dropped = 0
        self._reset = True
        self._ready.set()

    def has_log_until(self, sequence: int) -> None:
        if sequence > self.log_end:
            self.log_end = sequence
            self._ready.set()

    def end(self, reason: str) -> None:
        self._ending = self._ending or reason
        self._ready.set()

    @property
    def ending(self) -> str | None:
        return self._ending

    async def next_events(self, seconds: float) -> list[StreamEvent]:
        """Return the queued events as soon as there are any; an empty list after a timeout."""
        await wait_for_event(self._ready, seconds)
        self._ready.clear()
        events = list(self._waiting.values())
        self._waiting.clear()
        if self._reset:
            self._reset = False
            events.insert(0, StreamEvent("reset", b"{}"))
        if self._dropped:
            events.append(StreamEvent("overflow", b'{"left_out":%d}' % self._dropped))
            self._dropped = 0
        return events


EVENTS = ("job", "log", "worker", "counters")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilter:
    """The filter of a stream.

    ``tenant`` is enforced: a principal with a tenant sees no events of other tenants.
    """

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
        """Whether worker events are sent.

        Only principals without a tenant get them, because workers serve all tenants.
        """
        return "worker" in self.events and self.tenant is None and self.job is None

    def matches(self, job: JobSummary, earlier_worker: UUID | None = None) -> bool:
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

    def counters_for(self, counters: Sequence[QueueCounts]) -> list[dict[str, str | int]]:
        """Return the matching counters, summed by queue."""
        sums: dict[str, dict[str, str | int]] = {}
        for item in counters:
            if self.tenant not in {None, item.tenant_id} or self.queue not in {None, item.queue}:
                continue
            entry = sums.setdefault(item.queue, {"queue": item.queue, "ready": 0, "waiting": 0, "running": 0})
            for name in ("ready", "waiting", "running"):
                entry[name] = int(entry[name]) + int(getattr(item, name))
        return [sums[queue] for queue in sorted(sums)]
