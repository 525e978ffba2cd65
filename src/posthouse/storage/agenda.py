"""What the keeper has to do, asked in one statement each for urgent and other steps."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import class_row

from posthouse.storage.queries import query

Db: TypeAlias = AsyncConnection[tuple[Any, ...]]


class UrgentWork(NamedTuple):
    now: datetime
    workers: int
    """How many there are."""
    workers_changed: bool
    """Whether one may be lost or have returned."""
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
    """Whether a minute is over that was not sampled."""
    has_alerts: bool
    """Whether alerts are to be sent, or their deliveries are under way."""
    worker_change: int | None
    """The last start or stop of a worker."""


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
