"""SQL statements of the application, one file each in sql/."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import dict_row

Db: TypeAlias = AsyncConnection[Any]
Row: TypeAlias = dict[str, Any]


@cache
def sql(name: str) -> str:
    """Return the statement in ``sql/{name}.sql``."""
    return (files("embeddings") / "sql" / f"{name}.sql").read_text()


async def fetch_all(db: Db, name: str, parameters: Row | None = None) -> list[Row]:
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(sql(name), parameters)
        return await cursor.fetchall()


async def fetch_one(db: Db, name: str, parameters: Row | None = None) -> Row | None:
    return next(iter(await fetch_all(db, name, parameters)), None)


def text_array(values: Iterable[object]) -> str:
    """Return a Postgres array literal: one text is ten times cheaper to send than a list."""
    return "{" + ",".join('"' + _escaped(str(value)) + '"' for value in values) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
