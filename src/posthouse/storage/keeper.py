"""The statements of the keeper and of the relay: promotion, rescue, triggers, statistics and retention."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

from posthouse.core.request import PRIORITY_NAMES
from posthouse.settings import Settings
from posthouse.storage.queries import Db, call, call_row, call_rows, calling, fetch_value, query


async def promote(connection: Db, limit: int, swept: str) -> tuple[int, float | None, str]:
    """Promote due jobs and resolve dependencies since ``swept``.

    Returns how many were promoted, the seconds until the next one, and the next ``swept``.
    """
    cursor = await connection.execute(query("promote"), (swept, limit))
    row = await cursor.fetchone()
    assert row is not None
    return row[1], row[2], row[0]


async def adopt_jobs(connection: Db) -> int:
    return int(await call(connection, "adopt_jobs"))


async def expire_mismatched(connection: Db, after: float, limit: int) -> list[UUID]:
    """End jobs whose payload only newer code accepts and that no worker could run for ``after`` seconds."""
    cursor = await connection.execute(
        calling("expire_mismatched", "after", "limit"), {"after": after, "limit": limit}
    )
    return [row[0] for row in await cursor.fetchall()]


async def check_workers(connection: Db, settings: Settings, *, judge: bool) -> tuple[list[UUID], list[UUID]]:
    """Return the workers lost and returned since the last call; without ``judge``, ignore heartbeats."""
    wanted = {
        "grace": settings.rescue_grace_seconds,
        "silence": settings.offline_after,
        "judge": judge,
        "remote_grace": settings.remote_grace_seconds,
    }
    cursor = await connection.execute(query("check_workers"), wanted)
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1]


async def worker_names(connection: Db, ids: list[UUID]) -> dict[UUID, str]:
    cursor = await connection.execute(query("worker_names"), (ids,))
    return dict(await cursor.fetchall())


async def rescue(connection: Db, settings: Settings, *, expired: bool = True) -> list[tuple[UUID, UUID, str]]:
    """Rescue the jobs of lost workers and, with ``expired``, those with expired leases."""
    wanted = {
        "crash_limit": settings.crash_limit,
        "jitter": settings.rescue_jitter_seconds,
        "grace": settings.rescue_grace_seconds,
        "expired": expired,
        "remote_grace": settings.remote_grace_seconds,
    }
    cursor = await connection.execute(calling("rescue", *wanted), wanted)
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def create_partitions(connection: Db) -> int:
    return int(await call(connection, "create_partitions"))


async def delete_stale_rows(connection: Db, keep_days: float) -> int:
    return int(await fetch_value(connection, "delete_stale_rows", days=keep_days))


async def delete_empty_lanes(connection: Db) -> int:
    """Delete empty lanes if there are many; return how many."""
    return int(await call(connection, "delete_empty_lanes"))


async def restore_missing_lanes(connection: Db) -> int:
    """Re-insert lanes that were deleted while a job was enqueued into them; return how many."""
    return int(await call(connection, "restore_missing_lanes"))


async def sample_due_minutes(connection: Db) -> int:
    """Sample the minutes that have ended. Returns how many."""
    return int(await call(connection, "sample_due_minutes"))


async def delete_old_samples(connection: Db, keep_days: float) -> int:
    return int(await fetch_value(connection, "delete_old_samples", days=keep_days))


async def group_failures(connection: Db, limit: int) -> int:
    """Move failures into their groups. Returns the number of rows."""
    return int(await call(connection, "group_failures", limit=limit))


async def delete_old_failures(connection: Db, keep_days: float) -> int:
    """Delete failure groups and bulk changes without activity for ``keep_days``. Returns how many."""
    return int(await fetch_value(connection, "delete_old_failures", days=keep_days))


async def advance_bulk_change(connection: Db, limit: int) -> tuple[UUID, int, int, int, int] | None:
    """Advance one bulk change.

    Returns its id and the number of jobs retried, canceled, skipped, and gathered or with a new result;
    None without a bulk change.
    """
    row = await (
        await connection.execute(calling("advance_bulk_change", "limit"), {"limit": limit})
    ).fetchone()
    return None if row is None else (row[0], row[1], row[2], row[3], row[4])


async def advance_erasures(connection: Db, limit: int) -> tuple[int, int]:
    """Continue erasures. Returns how many are open, and how many jobs were erased."""
    row = await call_row(connection, "advance_erasures", limit=limit)
    return row["under_way"], row["erased"]


async def delete_old_artifacts(connection: Db, keep_days: float) -> int:
    """Delete artifacts of jobs that ended more than ``keep_days`` ago. Returns how many."""
    return int(await fetch_value(connection, "delete_old_artifacts", days=keep_days))


class UrgentWork(NamedTuple):
    now: datetime
    workers: int
    """The number of workers that have not stopped."""
    workers_changed: bool
    """Whether a worker may be lost or have returned."""
    has_leases: bool
    due_in: float | None
    """Seconds until the next waiting job is due; None without one."""
    has_edges: bool
    """Whether there are dependencies that may have raced the end of their job."""
    has_events: bool
    schedule_in: float | None
    """Seconds until the next schedule is due; None without one."""


class BackgroundWork(NamedTuple):
    has_failures: bool
    has_bulk_changes: bool
    has_erasures: bool
    has_minute: bool
    """Whether a minute has ended that was not sampled."""
    has_alerts: bool
    """Whether there are alerts to send or deliveries in progress."""
    worker_change: int | None
    """The id of the last row of worker_changes."""


async def keeper_urgent_work(connection: Db, swept: str, silence: float | None) -> UrgentWork:
    """Return the urgent work. ``swept``: see promote; ``silence``: seconds after which a worker is lost."""
    async with connection.cursor(row_factory=class_row(UrgentWork)) as cursor:
        await cursor.execute(query("keeper_urgent_work"), {"swept": swept, "silence": silence})
        row = await cursor.fetchone()
    assert row is not None
    return row


async def keeper_background_work(connection: Db) -> BackgroundWork:
    async with connection.cursor(row_factory=class_row(BackgroundWork)) as cursor:
        await cursor.execute(query("keeper_background_work"))
        row = await cursor.fetchone()
    assert row is not None
    return row


class Ready(NamedTuple):
    """The ready jobs of a queue. ``level`` is None without any; ``front`` changes when jobs are claimed."""

    queue: str
    workers: int
    level: str | None
    jobs: int
    front: str


async def ready_jobs(
    connection: AsyncConnection[tuple[Any, ...]], queues: Sequence[str] | None, most: int
) -> list[Ready]:
    """Return the ready jobs by queue and level, counted up to ``most``; ``queues`` None: of all queues."""
    wanted = {"queues": queues, "most": most, "normal": PRIORITY_NAMES["normal"]}
    cursor = await connection.execute(query("dispatch_ready"), wanted)
    return [Ready(*row) for row in await cursor.fetchall()]


Action = Literal["finish", "drop", "shrink", "purge", "delete"]
PAGES = 2000
"""Pages read in one transaction: 16 MB, a few tenths of a second."""
ROWS = 5000
"""Rows deleted in one transaction, found by an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStep:
    """A retention action. ``tenants``: those that keep their rows (shrink) or lose them (purge)."""

    category: str
    relation: str
    name: str
    action: Action
    tenants: list[str]
    starts_at: datetime | None
    ends_at: datetime | None
    rows: int
    bytes: int


async def retention_plan(connection: Db, days: Mapping[str, float]) -> list[RetentionStep]:
    """Return the actions that are due. ``days``: the retention of each category, see Settings.kept_days."""
    return await call_rows(connection, "retention_plan", RetentionStep, days=json.dumps(dict(days)))


async def detach_partition(connection: Db, name: str) -> bool | None:
    """Detach a partition. Returns False if the table is locked, None if the partition no longer exists."""
    return await call(connection, "detach_partition", name=name)  # type: ignore[no-any-return]


async def copy_retained_rows(connection: Db, name: str, tenants: list[str]) -> int | None:
    """Copy the rows of these tenants. Returns how many, or None if the table is locked."""
    return await call(  # type: ignore[no-any-return]
        connection, "copy_retained_rows", name=name, tenants=tenants
    )


async def swap_partition(connection: Db, name: str, tenants: list[str]) -> bool | None:
    return await call(  # type: ignore[no-any-return]
        connection, "swap_partition", name=name, tenants=tenants
    )


async def delete_tenant_rows(
    connection: Db, name: str, tenants: list[str], page: int
) -> tuple[int, int | None]:
    """Delete the rows of these tenants from some pages. Returns how many, and the next page."""
    row = await call_row(connection, "delete_tenant_rows", name=name, tenants=tenants, page=page, pages=PAGES)
    return row["rows"], row["next_page"]


async def delete_detached_job_data(connection: Db, *, name: str, page: int) -> int | None:
    """Delete the data of the jobs on some pages of a detached partition, and return the next page."""
    return await call(  # type: ignore[no-any-return]
        connection, "delete_detached_job_data", name=name, page=page, pages=PAGES
    )


async def drop_detached_partition(connection: Db, name: str) -> bool:
    return bool(await call(connection, "drop_detached_partition", name=name))


async def delete_old_rows(connection: Db, name: str, days: Mapping[str, float]) -> int:
    return int(await call(connection, "delete_old_rows", name=name, days=json.dumps(dict(days)), limit=ROWS))


async def table_page_count(connection: Db, name: str) -> int:
    return int(await fetch_value(connection, "table_page_count", name=name) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEvent:
    """An event to match. Its context is JSON text, or None if the event was deleted by retention."""

    event: dict[str, Any]
    context: str | None
    triggers: list[dict[str, Any]]


async def events_waiting(connection: Db) -> bool:
    """Return whether there may be events to match. Much cheaper than lock_pending_events."""
    return bool(await fetch_value(connection, "events_waiting"))


async def lock_pending_events(connection: Db, limit: int) -> list[PendingEvent]:
    """Return unmatched events with the triggers that match them, locked until the transaction ends."""
    return await call_rows(connection, "lock_pending_events", PendingEvent, limit=limit)


async def record_matches(
    connection: Db, events: Sequence[str], results: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Create the jobs and mark the events as matched."""
    return await call_row(
        connection, "record_matches", events=list(events), results=json.dumps(list(results))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedules:
    """The current time, the schedules to process, and the seconds until the next one is due."""

    at: datetime
    triggers: list[dict[str, Any]]
    next_in: float | None


async def due_schedules(connection: Db, limit: int, *, thorough: bool) -> DueSchedules:
    """Return up to ``limit`` due schedules and as many new ones.

    ``thorough``: also those with runs in the future, after the clock was set back.
    """
    (look,) = await call_rows(connection, "due_schedules", DueSchedules, limit=limit, all=thorough)
    return look


async def fire_schedule(
    connection: Db, trigger: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], next_at: datetime
) -> dict[str, int]:
    """Record the runs of a trigger as it was read.

    All counts are zero if the trigger has changed or was processed in the meantime.
    """
    return await call_row(
        connection,
        "fire_schedule",
        trigger=trigger["id"],
        version=trigger["version"],
        expected=trigger["next_at"],
        runs=json.dumps(list(runs)),
        next=next_at,
    )
