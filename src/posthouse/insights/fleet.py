"""Queues, tenants, workers, and the kinds of job that workers know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from posthouse.core.redaction import PLAIN
from posthouse.errors import DefinitionNotFound, TenantNotFound, WorkerNotFound
from posthouse.insights.masking import shown_command
from posthouse.insights.overview import OFFLINE_AFTER
from posthouse.storage.reading import Db, fetch, fetch_value

MOST_JOBS_OF_A_WORKER = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue. ``ready`` could start now, ``scheduled`` is due later, ``blocked`` waits for other jobs."""

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
class WorkerInfo:
    """A worker. ``died``: it is offline and did not sign off. ``jobs``: some of what it runs."""

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
    jobs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """What a tenant may know of a worker: which queues it serves, and how many of their jobs it runs."""

    id: UUID
    queues: list[str]
    offers: list[str]
    concurrency: int
    running: int
    status: Literal["online", "draining", "disabled"]
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerChange:
    """``started``, ``stopped`` (it signed off), ``lost`` (it was found gone) or ``back`` (it was not)."""

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
    """What is left in a queue."""

    name: str
    running: int
    ready: int
    waiting: int
    paused_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantInfo:
    """A tenant. ``weight``: its share of the workers, beside the others that have work. ``retention_days``:
    how long its jobs are kept; None: as long as the others'. ``created_at``: None if it only has jobs.
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
    """A kind of job, as it is in effect. ``overridden`` names the fields that an operator set, ``beneath``
    says what each of them would be without that: as the code has it, or what is ordinary.
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


async def queue_overview(connection: Db, *, offline_after: float = OFFLINE_AFTER) -> list[QueueInfo]:
    return await fetch(connection, "queues_list", QueueInfo, offline_after=offline_after)


async def workers(
    connection: Db,
    *,
    offline_after: float = OFFLINE_AFTER,
    offline_within: float | None = 86400.0,
    jobs: int = MOST_JOBS_OF_A_WORKER,
) -> list[WorkerInfo]:
    """Those that are there, then those that left within ``offline_within`` seconds (None: ever), each with
    so many of the jobs that it runs.
    """
    found = await fetch(
        connection,
        "workers_list",
        WorkerInfo,
        offline_after=offline_after,
        offline_within=offline_within,
        jobs=jobs,
    )
    return [replace(worker, metadata=PLAIN.value(worker.metadata)) for worker in found]


async def workers_named(
    connection: Db, who: str, *, offline_after: float = OFFLINE_AFTER
) -> list[NamedWorker]:
    """The workers with this id or name: those that are there, else the last one that was."""
    found = await fetch(connection, "workers_named", NamedWorker, who=who, offline_after=offline_after)
    if not found:
        raise WorkerNotFound(f"there is no worker {who!r}; `posthouse workers` lists them")
    return found


async def seen_workers(connection: Db, *, offline_after: float = OFFLINE_AFTER) -> list[SeenWorker]:
    """Those that are there, as a tenant may know them."""
    return await fetch(connection, "workers_seen", SeenWorker, offline_after=offline_after)


async def worker_changes(
    connection: Db, *, worker: UUID | None = None, after: int | None = None, limit: int = 100
) -> list[WorkerChange]:
    """When workers came and went, newest first; goes on behind ``after``, the last one seen."""
    return await fetch(
        connection, "worker_changes_list", WorkerChange, worker=worker, after=after, limit=limit
    )


async def queue_counts(connection: Db, name: str) -> QueueCounts:
    (found,) = await fetch(connection, "queue_counts", QueueCounts, name=name)
    return found


async def queue_is_known(connection: Db, name: str) -> bool:
    """Whether any job, worker or definition names it."""
    return bool(await fetch_value(connection, "queue_known", name=name))


async def tenants(connection: Db) -> list[TenantInfo]:
    """Those that were created or have jobs now."""
    return await fetch(connection, "tenants_list", TenantInfo, id=None)


async def get_tenant(connection: Db, tenant: str) -> TenantInfo:
    found = await fetch(connection, "tenants_list", TenantInfo, id=tenant)
    if not found:
        raise TenantNotFound(f"there is no tenant {tenant!r}")
    return found[0]


async def definitions(
    connection: Db,
    *,
    key: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    offline_after: float = OFFLINE_AFTER,
) -> list[DefinitionInfo]:
    """All of them, or the one with this key; ``after``: those behind this key."""
    found = await fetch(
        connection, "definitions_list", DefinitionInfo, key=key, after=after, limit=limit,
        offline_after=offline_after,
    )  # fmt: skip
    return [
        replace(item, schema=PLAIN.schema(item.schema), command=shown_command(item.command)) for item in found
    ]


async def get_definition(connection: Db, key: str, *, offline_after: float = OFFLINE_AFTER) -> DefinitionInfo:
    found = await definitions(connection, key=key, offline_after=offline_after)
    if not found:
        raise DefinitionNotFound(f"there is no definition {key!r}")
    return found[0]
