"""The keeper's statements."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.storage.queries import query

Db: TypeAlias = AsyncConnection[tuple[Any, ...]]


async def _value(connection: Db, name: str, *parameters: Any) -> Any:
    cursor = await connection.execute(query(name), parameters)
    row = await cursor.fetchone()
    return row[0] if row else None


async def promote(connection: Db, limit: int, swept: str) -> tuple[int, float | None, str]:
    """Promote what is due and settle edges since ``swept``: how many, seconds to the next, where to go on."""
    cursor = await connection.execute(query("promote"), (swept, limit))
    row = await cursor.fetchone()
    assert row is not None
    return row[1], row[2], row[0]


async def count_workers(connection: Db) -> int:
    return int(await _value(connection, "workers_count"))


async def clock_now(connection: Db) -> datetime:
    return await _value(connection, "clock_now")  # type: ignore[no-any-return]


async def watch_workers(
    connection: Db, grace_seconds: float, silence_seconds: float | None
) -> tuple[list[UUID], list[UUID]]:
    """Who went offline and who came back. Without a silence nobody is offline for being quiet."""
    wanted = {"grace": grace_seconds, "silence": silence_seconds}
    cursor = await connection.execute(query("watch_workers"), wanted)
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1]


async def worker_names(connection: Db, ids: list[UUID]) -> dict[UUID, str]:
    cursor = await connection.execute(query("worker_names"), (ids,))
    return dict(await cursor.fetchall())


async def rescue(
    connection: Db, crash_limit: int, grace_seconds: float, *, expired: bool = True
) -> list[tuple[UUID, UUID, str]]:
    """Takes back the leases of workers that are gone and, unless told otherwise, those that have run out."""
    wanted = {"crash_limit": crash_limit, "grace": grace_seconds, "expired": expired}
    cursor = await connection.execute(query("rescue"), wanted)
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def make_partitions(connection: Db, days_ahead: int) -> int:
    return int(await _value(connection, "make_partitions", days_ahead))


async def tidy(connection: Db, keep_days: float) -> int:
    return int(await _value(connection, "tidy", keep_days))


async def tidy_lanes(connection: Db) -> int:
    """Forgets lanes where nobody stands, if there are many; returns how many."""
    return int(await _value(connection, "tidy_lanes"))


async def mend_lanes(connection: Db) -> int:
    """Makes lanes known again that were forgotten while somebody entered; returns how many."""
    return int(await _value(connection, "mend_lanes"))


async def sample_due(connection: Db) -> int:
    """Sample the minutes that are over; returns how many."""
    return int(await _value(connection, "sample_due"))


async def forget_samples(connection: Db, keep_days: float) -> int:
    return int(await _value(connection, "forget_samples", keep_days))


async def group_failures(connection: Db, limit: int) -> int:
    """Move what failed into its groups; returns how many rows were moved."""
    return int(await _value(connection, "group_failures", limit))


async def forget_failures(connection: Db, keep_days: float) -> int:
    """Forget groups and bulk retries that nothing was heard of for so long; returns how many."""
    return int(await _value(connection, "forget_failures", keep_days))


async def advance_bulk_change(connection: Db, most: int) -> tuple[UUID, int, int, int, int] | None:
    """A step of some bulk change: which, jobs retried, canceled, skipped and heard of; None: none is."""
    row = await (await connection.execute(query("bulk_change_advance"), (most,))).fetchone()
    return None if row is None else (row[0], row[1], row[2], row[3], row[4])
