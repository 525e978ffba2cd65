"""Similarity search by cosine distance, through the HNSW index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from embeddings.store import Db, statement, written

Row = dict[str, Any]


async def near_rule(db: Db, rule: UUID, limit: int) -> list[Row]:
    """Return the rules most similar to a rule, by the same model. Requires a transaction."""
    return await _nearest(db, "near_rule", {"rule": rule, "limit": limit})


async def near_text(db: Db, model: str, vector: Sequence[float], limit: int) -> list[Row]:
    """Return the rules most similar to a vector of this model. Requires a transaction."""
    return await _nearest(db, "near_text", {"model": model, "vector": written(vector), "limit": limit})


async def _nearest(db: Db, name: str, parameters: Row) -> list[Row]:
    await db.execute(statement("search_on"))
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), parameters)
        return await cursor.fetchall()
