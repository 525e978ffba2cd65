"""SQL statements, one file each, and their rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, LiteralString, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import dict_row

Db: TypeAlias = AsyncConnection[Any]
_FOLDER = Path(__file__).with_name("sql")


@cache
def sql(name: str) -> LiteralString:
    """Return the text of sql/<name>.sql. It is part of the package, so it counts as a literal."""
    text: LiteralString = (_FOLDER / f"{name}.sql").read_text()  # type: ignore[assignment,unused-ignore]
    return text


async def fetch_all(db: Db, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the rows of a statement as dicts."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(sql(name), parameters)
        return await cursor.fetchall()


async def fetch_one(db: Db, name: str, **parameters: Any) -> dict[str, Any] | None:
    """Return the first row, or None."""
    found = await fetch_all(db, name, **parameters)
    return found[0] if found else None
