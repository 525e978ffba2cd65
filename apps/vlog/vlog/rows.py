"""Query helpers that return rows as dicts."""

from __future__ import annotations

from typing import Any, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from vlog.queries import query

Db: TypeAlias = AsyncConnection[Any]


async def rows(db: Db, name: str, **parameters: Any) -> list[dict[str, Any]]:
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def one(db: Db, name: str, **parameters: Any) -> dict[str, Any] | None:
    """Return the first row, or None."""
    found = await rows(db, name, **parameters)
    return found[0] if found else None
