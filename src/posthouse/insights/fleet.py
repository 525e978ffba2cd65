"""Queues, workers, and the kinds of job that workers know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from posthouse.insights.overview import OFFLINE_AFTER
from posthouse.storage.reading import Db, fetch


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker. ``died``: it is offline and did not sign off."""

    id: UUID
    name: str
    hostname: str
    pid: int
    version: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    running: int
    status: Literal["active", "idle", "busy", "offline"]
    started_at: datetime
    heartbeat_at: datetime | None
    stopped_at: datetime | None
    died: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionInfo:
    key: str
    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    schema: dict[str, Any]
    updated_at: datetime
    workers: int


async def queue_overview(connection: Db, *, offline_after: float = OFFLINE_AFTER) -> list[QueueInfo]:
    return await fetch(connection, "queues_list", QueueInfo, offline_after=offline_after)


async def workers(
    connection: Db, *, offline_after: float = OFFLINE_AFTER, offline_within: float | None = 86400.0
) -> list[WorkerInfo]:
    """Those that are there, then those that left within ``offline_within`` seconds (None: ever)."""
    return await fetch(
        connection,
        "workers_list",
        WorkerInfo,
        offline_after=offline_after,
        offline_within=offline_within,
    )


async def definitions(connection: Db, *, offline_after: float = OFFLINE_AFTER) -> list[DefinitionInfo]:
    return await fetch(connection, "definitions_list", DefinitionInfo, offline_after=offline_after)
