"""The model that serves searches, and the change to another one."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from embeddings.db import Db, sql
from embeddings.providers import configured_model
from embeddings.store import Text


@dataclass(frozen=True)
class Models:
    """The active model and, during a change, the next one."""

    active: str
    next: str | None = None
    is_paused: bool = False
    texts_per_minute: int | None = None


async def find_models(db: Db) -> Models:
    """Return the models; without a stored one, the configured model is active."""
    async with db.cursor(row_factory=class_row(Models)) as cursor:
        await cursor.execute(sql("models_find"))
        return await cursor.fetchone() or Models(configured_model())


async def store_models(db: Db) -> Models:
    """Return the models after making the configured one active if there is none."""
    await db.execute(sql("models_add"), {"active": configured_model()})
    return await find_models(db)


async def hold_active(db: Db) -> str:
    """Return the active model, which cannot change until the end of the transaction."""
    row = await (await db.execute(sql("models_share"))).fetchone()
    assert row is not None
    return str(row[0])


async def missing_texts(db: Db, model: str, after: Text, limit: int) -> dict[Text, str]:
    """Return texts of rules that have no vector of this model, in the order of their keys."""
    parameters = {"next": model, "tenant": after.tenant, "hash": after.text_hash, "limit": limit}
    rows = await (await db.execute(sql("models_missing"), parameters)).fetchall()
    return {Text(tenant, model, text_hash): text for tenant, text_hash, text in rows}


async def count_texts(db: Db, model: str) -> tuple[int, int]:
    """Return how many texts there are, and how many have a vector of this model."""
    row = await (await db.execute(sql("models_progress"), {"next": model})).fetchone()
    assert row is not None
    return row[0], row[1]


async def switch_model(db: Db, model: str) -> bool:
    """Make the next model the active one if every text has its vector; return whether it was."""
    await db.execute(sql("models_lock"))
    return await (await db.execute(sql("models_switch"), {"next": model})).fetchone() is not None
