"""Runs the statements of the read side, each row as the type that its columns fill."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row

from posthouse.storage.queries import query

Db: TypeAlias = AsyncConnection[Any]
T = TypeVar("T")


async def fetch(connection: Db, name: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """The rows of sql/<name>.sql; its columns are the fields of ``row_type``."""
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def fetch_by_kept_plan(connection: Db, name: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """The same for a statement whose one plan serves all parameters, and is kept. In a transaction."""
    await connection.execute(query("plans_kept"))
    async with connection.cursor(row_factory=class_row(row_type)) as cursor:
        await cursor.execute(query(name), parameters, prepare=True)
        return await cursor.fetchall()


async def fetch_rows(connection: Db, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()


async def fetch_row(connection: Db, name: str, /, **parameters: Any) -> dict[str, Any]:
    """The one row of a statement that always has one."""
    (row,) = await fetch_rows(connection, name, **parameters)
    return row


async def fetch_value(connection: Db, name: str, /, **parameters: Any) -> Any:
    """The one value of a statement; None if it has no row."""
    cursor = await connection.execute(query(name), parameters)
    row = await cursor.fetchone()
    return None if row is None else row[0]
