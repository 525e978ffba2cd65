"""The statements of the keeper and of the relay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

from posthouse.core.request import PRIORITY_NAMES
from posthouse.settings import Settings
from posthouse.storage.queries import Db, call, call_row, calling, fetch_value, query


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


async def tidy(connection: Db, keep_days: float) -> int:
    return int(await fetch_value(connection, "tidy", days=keep_days))


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


async def advance_bulk_change(connection: Db, most: int) -> tuple[UUID, int, int, int, int] | None:
    """Advance one bulk change.

    Returns its id and the number of jobs retried, canceled, skipped, and gathered or with a new result;
    None without a bulk change.
    """
    row = await (await connection.execute(calling("advance_bulk_change", "most"), {"most": most})).fetchone()
    return None if row is None else (row[0], row[1], row[2], row[3], row[4])


async def advance_erasures(connection: Db, most: int) -> tuple[int, int]:
    """Continue erasures. Returns how many are open, and how many jobs were erased."""
    row = await call_row(connection, "advance_erasures", limit=most)
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


class PatientWork(NamedTuple):
    has_failures: bool
    has_bulk_changes: bool
    has_erasures: bool
    has_minute: bool
    """Whether a minute has ended that was not sampled."""
    has_alerts: bool
    """Whether there are alerts to send or deliveries in progress."""
    worker_change: int | None
    """The id of the last row of worker_changes."""


async def urgent_work(connection: Db, swept: str, silence: float | None) -> UrgentWork:
    """Return the urgent work. ``swept``: see promote; ``silence``: seconds after which a worker is lost."""
    async with connection.cursor(row_factory=class_row(UrgentWork)) as cursor:
        await cursor.execute(query("agenda_urgent"), {"swept": swept, "silence": silence})
        row = await cursor.fetchone()
    assert row is not None
    return row


async def patient_work(connection: Db) -> PatientWork:
    async with connection.cursor(row_factory=class_row(PatientWork)) as cursor:
        await cursor.execute(query("agenda_patient"))
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
