"""Queues, tenants, workers, and the kinds of job that workers know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

from posthouse.core.redaction import PLAIN
from posthouse.errors import DefinitionNotFound, TenantNotFound, WorkerNotFound
from posthouse.insights.masking import shown_command
from posthouse.storage.queries import Db, fetch, fetch_rows, fetch_value

MOST_JOBS_OF_A_WORKER = 10


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
class WorkerJob:
    """A job that a worker runs."""

    id: UUID
    kind: str
    since: datetime

    @classmethod
    def from_json(cls, job: Mapping[str, Any]) -> WorkerJob:
        return cls(id=UUID(job["id"]), kind=job["kind"], since=datetime.fromisoformat(job["since"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker.

    ``died``: the worker disconnected without shutting down. ``jobs``: some of the jobs that it runs.
    """

    id: UUID
    name: str
    hostname: str
    pid: int
    version: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    capabilities: dict[str, Any]
    offers: list[str]
    metadata: dict[str, Any]
    running: int
    status: Literal["active", "idle", "busy", "offline", "disabled"]
    started_at: datetime
    heartbeat_at: datetime | None
    heartbeat_seconds: float | None
    stopped_at: datetime | None
    disabled_at: datetime | None
    drain_asked_at: datetime | None
    died: bool
    jobs: list[WorkerJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleWorker:
    """A worker as a tenant sees it: the queues that it serves, and how many of the tenant's jobs it runs.

    ``version`` is empty for tenants.
    """

    id: UUID
    version: str
    queues: list[str]
    offers: list[str]
    concurrency: int
    running: int
    status: Literal["online", "draining", "disabled"]
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerChange:
    """A change of a worker: ``started``, ``stopped``, ``lost`` or ``back`` (it returned)."""

    id: int
    at: datetime
    worker_id: UUID
    name: str
    change: Literal["started", "stopped", "lost", "back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWorker:
    id: UUID
    name: str
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Counts of the jobs in a queue."""

    name: str
    running: int
    ready: int
    waiting: int
    paused_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantInfo:
    """A tenant.

    ``weight``: its share of the workers relative to other tenants with ready jobs. ``retention_days``: how
    long its jobs are stored; None: the default. ``created_at``: None for a tenant that was never created and
    only has jobs.
    """

    id: str
    queued: int
    running: int
    weight: float
    retention_days: float | None
    label: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionInfo:
    """A kind of job with its effective settings.

    ``overridden`` names the fields set by an operator; ``beneath`` holds the values of those fields in the
    code or the defaults.
    """

    key: str
    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    retry: dict[str, Any] | None
    schema: dict[str, Any]
    limits: dict[str, Any] | None
    requires: list[str]
    prefers: list[str]
    followup_queues: list[str]
    active: bool
    redact: list[str]
    keep_steps: bool
    keep_progress: bool
    runner: str
    command: dict[str, Any] | None
    origin: str
    overridden: list[str]
    beneath: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    workers: int


async def list_queues(connection: Db, *, offline_after: float | None = None) -> list[QueueInfo]:
    return await fetch(connection, "queues_list", QueueInfo, offline_after=offline_after)


async def workers(
    connection: Db,
    *,
    offline_after: float | None = None,
    offline_within: float | None = 86400.0,
    jobs: int = MOST_JOBS_OF_A_WORKER,
) -> list[WorkerInfo]:
    """Return the live workers, then those that left, each with some of its running jobs.

    ``offline_within``: only workers that left within these seconds; None: all.
    """
    found = await fetch(
        connection,
        "workers_list",
        WorkerInfo,
        offline_after=offline_after,
        offline_within=offline_within,
        jobs=jobs,
    )
    return [
        replace(
            worker,
            metadata=PLAIN.value(worker.metadata),
            jobs=[WorkerJob.from_json(job) for job in cast("list[dict[str, Any]]", worker.jobs)],
        )
        for worker in found
    ]


async def workers_named(connection: Db, who: str, *, offline_after: float | None = None) -> list[NamedWorker]:
    """Return the live workers with this id or name; if none is live, the last worker that had it."""
    found = await fetch(connection, "workers_named", NamedWorker, who=who, offline_after=offline_after)
    if not found:
        raise WorkerNotFound(f"worker {who!r} does not exist; list workers with `posthouse workers`")
    return found


async def visible_workers(connection: Db, *, offline_after: float | None = None) -> list[VisibleWorker]:
    """Return the live workers as a tenant may see them."""
    return await fetch(connection, "workers_seen", VisibleWorker, offline_after=offline_after)


async def worker_changes(
    connection: Db, *, worker: UUID | None = None, after: int | None = None, limit: int = 100
) -> list[WorkerChange]:
    """Return the changes of workers, newest first; ``after``: continue after this change."""
    return await fetch(
        connection, "worker_changes_list", WorkerChange, worker=worker, after=after, limit=limit
    )


async def queue_counts(connection: Db, name: str) -> QueueCounts:
    (found,) = await fetch(connection, "queue_counts", QueueCounts, name=name)
    return found


async def queue_is_known(connection: Db, name: str) -> bool:
    """Return whether any job, worker or definition uses the queue."""
    return bool(await fetch_value(connection, "queue_known", name=name))


async def tenants(connection: Db) -> list[TenantInfo]:
    """Return the tenants that were created or have jobs now."""
    return await fetch(connection, "tenants_list", TenantInfo, id=None)


async def get_tenant(connection: Db, tenant: str) -> TenantInfo:
    found = await fetch(connection, "tenants_list", TenantInfo, id=tenant)
    if not found:
        raise TenantNotFound(f"tenant {tenant!r} does not exist")
    return found[0]


async def definitions(
    connection: Db,
    *,
    key: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    offline_after: float | None = None,
) -> list[DefinitionInfo]:
    """Return all definitions, or the one with this key; ``after``: continue after this key."""
    found = await fetch(
        connection, "definitions_list", DefinitionInfo, key=key, after=after, limit=limit,
        offline_after=offline_after,
    )  # fmt: skip
    return [
        replace(item, schema=PLAIN.schema(item.schema), command=shown_command(item.command)) for item in found
    ]


async def definition_keys(connection: Db) -> list[str]:
    return [row["key"] for row in await fetch_rows(connection, "definition_keys")]


async def get_definition(connection: Db, key: str, *, offline_after: float | None = None) -> DefinitionInfo:
    found = await definitions(connection, key=key, offline_after=offline_after)
    if not found:
        raise DefinitionNotFound(f"definition {key!r} does not exist")
    return found[0]
