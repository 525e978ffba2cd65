"""Run the statements of the read side and map each row to a type."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row

from posthouse.storage.queries import query

Db: TypeAlias = AsyncConnection[Any]
T = TypeVar("T")


async def fetch(connection: Db, name: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """Return the rows of sql/<name>.sql; its columns are the fields of ``row_type``."""
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def fetch_by_kept_plan(connection: Db, name: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """Return the rows of a statement whose generic plan is kept. Must run in a transaction."""
    await connection.execute(query("plans_kept"))
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query(name), parameters, prepare=True)
        return await cursor.fetchall()


async def fetch_rows(connection: Db, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def fetch_row(connection: Db, name: str, /, **parameters: Any) -> dict[str, Any]:
    """Return the row of a statement that always returns one."""
    (row,) = await fetch_rows(connection, name, **parameters)
    return row


async def fetch_value(connection: Db, name: str, /, **parameters: Any) -> Any:
    """Return the single value of a statement, or None without a row."""
    cursor = await connection.execute(query(name), parameters)
    row = await cursor.fetchone()
    return None if row is None else row[0]
