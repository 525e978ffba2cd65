"""Run statements and map their rows to types.

The statements are in sql/, a file for each family. One begins with ``-- name: jobs_by_ids`` and a comment
that states its purpose, and ends before the next one.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row

from posthouse.storage.columns import expand_columns

Db: TypeAlias = AsyncConnection[Any]
T = TypeVar("T")

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """Return all statements by name."""
    found: dict[str, str] = {}
    for file in sorted((files("posthouse.storage") / "sql").iterdir(), key=lambda file: file.name):
        _, *parts = _NAME.split(file.read_text())
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"{file.name}: two statements are named {name}")
            found[name] = expand_columns(text.strip())
    return found


@cache
def query(name: str) -> str:
    """Return a statement by its name."""
    try:
        return statements()[name]
    except KeyError:
        raise LookupError(f"no statement is named {name!r}") from None


async def fetch(connection: Db, name: str, row_type: type[T], /, **parameters: Any) -> list[T]:
    """Return the rows of a statement; its columns are the fields of ``row_type``."""
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
