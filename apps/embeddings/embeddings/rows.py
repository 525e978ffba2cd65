"""Rows of statements, for the routes."""

from __future__ import annotations

from typing import Any, TypeAlias

from fastapi import HTTPException
from psycopg.rows import dict_row

from embeddings.store import Db, statement

Row: TypeAlias = dict[str, Any]


async def all_rows(db: Db, name: str, parameters: Row) -> list[Row]:
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), parameters)
        return await cursor.fetchall()


async def one_row(db: Db, name: str, parameters: Row, otherwise: str, status: int = 404) -> Row:
    rows = await all_rows(db, name, parameters)
    if not rows:
        raise HTTPException(status, otherwise)
    return rows[0]
