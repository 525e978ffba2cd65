"""Health for monitoring systems: some of the doctor's checks, with figures, and which workers are online."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from posthouse.insights.doctor import Finding, run_check
from posthouse.insights.overview import worker_counts
from posthouse.insights.queues import QueueCounts, queue_counts
from posthouse.settings import Settings
from posthouse.storage.migrations import why_incompatible
from posthouse.storage.queries import Db, call, fetch, fetch_row

CHECKS = ("schema", "connections", "dispatch", "horizon", "keeper", "leases", "unserved", "stuck")
"""The checks of the doctor that are fast and show whether jobs run now."""
LITTLE_SPACE, NO_SPACE = 1_000_000_000, 100_000_000
_WORST = {"ok": 0, "warning": 1, "error": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    check: str
    severity: Literal["warning", "error"]
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of the installation.

    ``failing``: jobs do not run as they should. ``degraded``: jobs run, but a check needs attention.
    """

    status: Literal["ok", "degraded", "failing"]
    causes: list[Cause]
    database_milliseconds: float | None = None
    schema_version: int | None = None
    storage_free_bytes: int | None = None
    storage_total_bytes: int | None = None
    workers: dict[str, int] | None = None
    keepers: int | None = None
    queued: int | None = None
    ready: int | None = None
    running: int | None = None
    oldest_ready_seconds: float | None = None


async def health(connection: Db, settings: Settings) -> Health:
    milliseconds = await latency(connection)
    findings = [await run_check(connection, settings, name) for name in CHECKS]
    space = shutil.disk_usage(_existing(settings.data_dir))
    counted = await queue_counts(connection)
    keepers = await fetch_row(connection, "doctor_keepers", grace=0.0, limit=0)
    causes = _causes([*findings, *_short_of_space(space.free)])
    return Health(
        status=status_of(causes),
        causes=causes,
        database_milliseconds=milliseconds,
        schema_version=(await fetch_row(connection, "schema_version"))["number"],
        storage_free_bytes=space.free,
        storage_total_bytes=space.total,
        workers=await worker_counts(connection, offline_after=settings.offline_after),
        keepers=keepers["sessions"],
        queued=sum(item.ready + item.waiting for item in counted),
        ready=sum(item.ready for item in counted),
        running=sum(item.running for item in counted),
        oldest_ready_seconds=_oldest(counted),
    )


async def latency(connection: Db) -> float:
    """Return the round-trip time to the database in milliseconds."""
    began = time.perf_counter()
    await call(connection, "now")
    return round((time.perf_counter() - began) * 1000, 2)


async def schema_problem(connection: Db) -> str | None:
    """Return why this version cannot work with the schema, or None if it can."""
    row = await fetch_row(connection, "schema_version")
    return why_incompatible(row["number"], row["lowest_codes"])


def unreachable(summary: str) -> Health:
    """Return the health without a database."""
    return Health(status="failing", causes=[Cause(check="database", severity="error", summary=summary)])


def status_of(causes: Sequence[Cause]) -> Literal["ok", "degraded", "failing"]:
    worst = max((_WORST[cause.severity] for cause in causes), default=0)
    return ("ok", "degraded", "failing")[worst]


def _causes(findings: Sequence[Finding]) -> list[Cause]:
    return [
        Cause(check=finding.check, severity=finding.severity, summary=finding.summary)
        for finding in findings
        if finding.severity != "ok"
    ]


def _short_of_space(free: int) -> list[Finding]:
    if free > LITTLE_SPACE:
        return []
    severity: Literal["warning", "error"] = "error" if free < NO_SPACE else "warning"
    return [Finding(check="storage", severity=severity, summary=f"{free // 1_000_000:,} MB are free")]


def _existing(path: Path) -> Path:
    """Return the path or its nearest existing parent.

    Without an embedded Postgres the folder may not exist.
    """
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def _oldest(counted: Sequence[QueueCounts]) -> float | None:
    return max(
        (item.oldest_ready_seconds for item in counted if item.oldest_ready_seconds is not None), default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerScope:
    """The tenant and the queues of an online worker.

    ``only_tenant``: the tenant of the worker's key; None for workers that serve all tenants.
    """

    only_tenant: str | None
    queues: list[str]


@dataclass(frozen=True, slots=True)
class Presence:
    """Workers that are online, and the counts of all queues."""

    online: list[WorkerScope]
    counted: list[QueueCounts]

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
    """Return the online workers and the counts of all queues.

    It reads every queued job: do not call it for every request.
    """
    online = await fetch(connection, "workers_online", WorkerScope, offline_after=offline_after)
    return Presence(online, await queue_counts(connection, by_tenant=True))
