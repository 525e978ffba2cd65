"""The overview of queues and counts, and the current activity. It does not read the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from posthouse.insights.failures import FailureFilter, FailureGroup, list_failure_groups
from posthouse.insights.fleet import WorkerInfo, visible_workers, workers
from posthouse.insights.jobs import MAX_COUNTED, JobSummary
from posthouse.insights.masking import DEFAULT_MASK
from posthouse.insights.queues import QueueInfo, list_queues
from posthouse.insights.stats import MINUTE, StatPoint, series
from posthouse.storage.queries import Db, database_now, fetch, fetch_rows

HOUR, DAY = 3600.0, 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Results in a period, to the minute.

    ``failure_share``: the share of finished attempts that failed; None if there were none. ``wait_p95`` and
    similar fields are in seconds.
    """

    arrivals: int = 0
    ended: int = 0
    succeeded: int = 0
    failed: int = 0
    dead_letter: int = 0
    failures: int = 0
    failure_share: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOverview:
    name: str
    ready: int
    scheduled: int
    blocked: int
    running: int
    workers: int
    paused_at: datetime | None
    oldest_ready_seconds: float | None
    last_hour: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Slots of the workers. ``busy``: slots that run jobs visible to the caller."""

    workers: int
    slots: int
    busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The overview.

    A queue with ``count_limit`` jobs may have more. ``oldest_ready_seconds``: how long the oldest ready job
    has been waiting.
    """

    at: datetime
    ready: int
    scheduled: int
    blocked: int
    running: int
    oldest_ready_seconds: float | None
    count_limit: int
    workers: Slots
    last_hour: Rates
    last_day: Rates
    queues: list[QueueOverview]


async def overview(
    connection: Db, *, tenant: str | None = None, offline_after: float | None = None
) -> Overview:
    """Return the overview of one tenant, or of all."""
    found = await list_queues(connection, tenant=tenant, most=MAX_COUNTED, offline_after=offline_after)
    ages = [queue.oldest_ready_seconds for queue in found if queue.oldest_ready_seconds is not None]
    rates = await _rates_of_queues(connection, tenant)
    return Overview(
        at=await database_now(connection),
        ready=sum(queue.ready for queue in found),
        scheduled=sum(queue.scheduled for queue in found),
        blocked=sum(queue.blocked for queue in found),
        running=sum(queue.running for queue in found),
        oldest_ready_seconds=max(ages, default=None),
        count_limit=MAX_COUNTED,
        workers=await _slots(connection, offline_after),
        last_hour=await _rates(connection, tenant, HOUR),
        last_day=await _rates(connection, tenant, DAY),
        queues=[_with_rates(queue, rates.get(queue.name, Rates())) for queue in found],
    )


async def _slots(connection: Db, offline_after: float | None) -> Slots:
    there = await visible_workers(connection, offline_after=offline_after)
    free = [worker.concurrency for worker in there if worker.status == "online"]
    return Slots(workers=len(there), slots=sum(free), busy=sum(worker.running for worker in there))


async def _rates(connection: Db, tenant: str | None, span: float) -> Rates:
    lines = await series(connection, span=span, by=(), tenant=tenant)
    return _of(lines[0].total) if lines else Rates()


async def _rates_of_queues(connection: Db, tenant: str | None) -> dict[str, Rates]:
    lines = await series(connection, span=HOUR, by=("queue",), tenant=tenant)
    return {line.queue or "": _of(line.total) for line in lines}


def _of(total: StatPoint) -> Rates:
    tried = total.succeeded + total.failures
    return Rates(
        arrivals=total.arrivals,
        ended=total.ended,
        succeeded=total.succeeded,
        failed=total.failed,
        dead_letter=total.dead_letter,
        failures=total.failures,
        failure_share=round(total.failures / tried, 4) if tried else None,
        wait_p50=total.wait_p50,
        wait_p95=total.wait_p95,
        run_p50=total.run_p50,
        run_p95=total.run_p95,
    )


def _with_rates(queue: QueueInfo, rates: Rates) -> QueueOverview:
    return QueueOverview(
        name=queue.name,
        ready=queue.ready,
        scheduled=queue.scheduled,
        blocked=queue.blocked,
        running=queue.running,
        workers=queue.workers,
        paused_at=queue.paused_at,
        oldest_ready_seconds=queue.oldest_ready_seconds,
        last_hour=rates,
    )


WORKER_STATUSES = ("active", "idle", "busy", "offline", "disabled")


async def worker_counts(connection: Db, *, offline_after: float | None = None) -> dict[str, int]:
    """Return the number of workers with each status.

    Offline workers are those that left within the last hour.
    """
    rows = await fetch_rows(connection, "worker_counts", offline_after=offline_after)
    found = {row["status"]: row["workers"] for row in rows}
    return {status: found.get(status, 0) for status in WORKER_STATUSES}


RECENT_SECONDS = 3600.0
"""Failures and disconnected workers are shown for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The current activity. ``finished_per_minute``: by queue, jobs that finished in the last full minute."""

    at: datetime
    ready: int
    scheduled: int
    blocked: int
    running: int
    queues: list[QueueOverview]
    finished_per_minute: dict[str, int]
    workers: list[WorkerInfo]
    jobs: list[JobSummary]
    failures: list[FailureGroup]


async def activity(
    connection: Db, *, offline_after: float | None = None, jobs: int = 50, failures: int = 20
) -> Activity:
    """Return the current activity, with the ``jobs`` that have been running longest."""
    seen = await overview(connection, offline_after=offline_after)
    last_minute = await series(connection, span=MINUTE, by=("queue",))
    recently = FailureFilter(since=seen.at - timedelta(seconds=RECENT_SECONDS), limit=failures)
    return Activity(
        at=seen.at,
        ready=seen.ready,
        scheduled=seen.scheduled,
        blocked=seen.blocked,
        running=seen.running,
        queues=seen.queues,
        finished_per_minute={line.queue or "": line.total.ended for line in last_minute},
        workers=await workers(connection, offline_after=offline_after, offline_within=RECENT_SECONDS),
        jobs=[
            DEFAULT_MASK.of(job) for job in await fetch(connection, "jobs_running", JobSummary, limit=jobs)
        ],
        failures=await list_failure_groups(connection, recently),
    )
