"""What the installation is doing now: queues, workers, running jobs and recent failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from posthouse.insights.failures import FailureFilter, FailureGroup, failure_groups
from posthouse.insights.fleet import WorkerInfo, workers
from posthouse.insights.glance import QueueGlance, glance
from posthouse.insights.jobs import JobSummary
from posthouse.insights.masking import WITHOUT_JOB
from posthouse.insights.stats import MINUTE, series
from posthouse.storage.queries import Db, fetch

RECENT_SECONDS = 3600.0
"""Failures and disconnected workers are shown for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """``finished_per_minute``: by queue, jobs that finished in the last full minute."""

    at: datetime
    ready: int
    scheduled: int
    blocked: int
    running: int
    queues: list[QueueGlance]
    finished_per_minute: dict[str, int]
    workers: list[WorkerInfo]
    jobs: list[JobSummary]
    failures: list[FailureGroup]


async def activity(
    connection: Db, *, offline_after: float | None = None, jobs: int = 50, failures: int = 20
) -> Activity:
    """Return what happens now, with the ``jobs`` that have been running longest."""
    seen = await glance(connection, offline_after=offline_after)
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
        jobs=[WITHOUT_JOB.of(job) for job in await fetch(connection, "jobs_running", JobSummary, limit=jobs)],
        failures=await failure_groups(connection, recently),
    )
