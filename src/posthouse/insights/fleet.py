"""Workers, the kinds of job that they know, tenants and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

from posthouse.core.redaction import PLAIN
from posthouse.errors import DefinitionNotFound, TenantNotFound, WorkerNotFound
from posthouse.insights.masking import redact_command
from posthouse.storage.queries import Db, fetch, fetch_rows

MAX_JOBS_PER_WORKER = 10


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

    ``lost``: the worker disconnected without shutting down. ``jobs``: some of the jobs that it runs.
    """

    id: UUID
    name: str
    hostname: str
    pid: int
    version: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    capability_details: dict[str, Any]
    capabilities: list[str]
    metadata: dict[str, Any]
    running: int
    status: Literal["active", "idle", "busy", "offline", "disabled"]
    started_at: datetime
    heartbeat_at: datetime | None
    heartbeat_seconds: float | None
    stopped_at: datetime | None
    disabled_at: datetime | None
    drain_requested_at: datetime | None
    lost: bool
    jobs: list[WorkerJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleWorker:
    """A worker as a tenant sees it: the queues that it serves, and how many of the tenant's jobs it runs.

    ``version`` is empty for tenants.
    """

    id: UUID
    version: str
    queues: list[str]
    capabilities: list[str]
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

    ``overridden`` names the fields set by an operator; ``code_defaults`` has the values of these fields
    without the override.
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
    code_defaults: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    workers: int


async def workers(
    connection: Db,
    *,
    offline_after: float | None = None,
    offline_within: float | None = 86400.0,
    jobs: int = MAX_JOBS_PER_WORKER,
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


async def workers_by_name(
    connection: Db, worker: str, *, offline_after: float | None = None
) -> list[NamedWorker]:
    """Return the live workers with this id or name; if none is live, the last worker that had it."""
    found = await fetch(
        connection, "workers_by_name", NamedWorker, worker=worker, offline_after=offline_after
    )
    if not found:
        raise WorkerNotFound(f"worker {worker!r} does not exist; list workers with `posthouse workers`")
    return found


async def visible_workers(connection: Db, *, offline_after: float | None = None) -> list[VisibleWorker]:
    """Return the live workers as a tenant may see them."""
    return await fetch(connection, "visible_workers", VisibleWorker, offline_after=offline_after)


async def worker_changes(
    connection: Db, *, worker: UUID | None = None, after: int | None = None, limit: int = 100
) -> list[WorkerChange]:
    """Return the changes of workers, newest first; ``after``: continue after this change."""
    return await fetch(
        connection, "worker_changes_list", WorkerChange, worker=worker, after=after, limit=limit
    )


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
        replace(item, schema=PLAIN.schema(item.schema), command=redact_command(item.command))
        for item in found
    ]


async def definition_keys(connection: Db) -> list[str]:
    return [row["key"] for row in await fetch_rows(connection, "definition_keys")]


async def get_definition(connection: Db, key: str, *, offline_after: float | None = None) -> DefinitionInfo:
    found = await definitions(connection, key=key, offline_after=offline_after)
    if not found:
        raise DefinitionNotFound(f"definition {key!r} does not exist")
    return found[0]


MAX_SLOTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInfo:
    """A limit.

    ``in_use``: running jobs in all of its slots; ``highest_usage``: running jobs in the fullest slot;
    ``tokens``: the fewest tokens of any slot.
    """

    name: str
    kinds: list[str] | None
    queues: list[str] | None
    tenants: list[str] | None
    per: str
    max_running: int | None
    rate: float | None
    burst: float | None
    weights: dict[str, Any]
    origin: str
    updated_at: datetime
    in_use: int
    slots: int
    highest_usage: int
    full_slots: int
    tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotInfo:
    """The use of a limit by one tenant or key."""

    limit_name: str
    tenant_id: str | None
    key: str | None
    in_use: int
    max_running: int | None
    rate: float | None
    burst: float | None
    tokens: float | None


async def limits(connection: Db, *, name: str | None = None) -> list[LimitInfo]:
    """Return all limits, or the one with this name."""
    return await fetch(connection, "limits_list", LimitInfo, name=name)


async def limit_slots(connection: Db, *, name: str | None = None, limit: int = MAX_SLOTS) -> list[SlotInfo]:
    """Return the slots in use, the fullest of each limit first."""
    return await fetch(connection, "limit_slots_list", SlotInfo, name=name, limit=limit)
