"""The model that serves searches, and the change to another one."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from embeddings.db import Db, Row, fetch_one, sql
from embeddings.providers import configured_model, embed, full_name
from embeddings.store import Text

NO_CHANGE = "no change of the model is in progress; start one with POST /embeddings/model"


class ChangeConflict(Exception):
    """The change of the model is not possible in the present state."""


@dataclass(frozen=True)
class Models:
    """The active model and, during a change, the next one."""

    active: str
    next: str | None = None
    is_paused: bool = False
    texts_per_minute: int | None = None


async def find_models(db: Db) -> Models:
    """Return the models; without a stored one, the configured model is active."""
    return await _stored_models(db) or Models(configured_model())


async def store_models(db: Db) -> Models:
    """Return the models after making the configured one active if there is none."""
    models = await _stored_models(db)
    if models is None:
        await db.execute(sql("models_add"), {"active": configured_model()})
        return await find_models(db)
    return models


async def _stored_models(db: Db) -> Models | None:
    async with db.cursor(row_factory=class_row(Models)) as cursor:
        await cursor.execute(sql("models_find"))
        return await cursor.fetchone()


async def lock_active_model(db: Db) -> str:
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


async def check_model(name: str) -> str:
    """Return the full name of a model after embedding a text with it."""
    model = full_name(name)
    await embed(model, ["a text to see whether the model exists"])
    return model


async def start_change(db: Db, model: str, texts_per_minute: int | None, actor: str) -> None:
    """Start the change to a model in the background."""
    if (await store_models(db)).active == model:
        raise ChangeConflict(f"model {model} is already active")
    parameters = {"next": model, "texts_per_minute": texts_per_minute, "actor": actor}
    if await fetch_one(db, "models_start", parameters) is None:
        raise ChangeConflict("another change is in progress; cancel it first")


async def control_change(db: Db, changes: Row, actor: str) -> None:
    """Pause or resume the change, or set its rate: the keys ``is_paused`` and ``texts_per_minute``."""
    parameters = {"is_paused": None, "texts_per_minute": None, **changes, "actor": actor}
    if (
        await fetch_one(db, "models_control", parameters | {"has_rate": "texts_per_minute" in changes})
        is None
    ):
        raise ChangeConflict(NO_CHANGE)


async def cancel_change(db: Db) -> None:
    """End the change without a switch."""
    if await fetch_one(db, "models_cancel") is None:
        raise ChangeConflict(NO_CHANGE)


async def show_models(db: Db) -> Row:
    """Return the models and the progress of a change."""
    models = await find_models(db)
    progress = await fetch_one(db, "models_shown", {"next": models.next}) or {}
    return {"active": models.active, "configured": configured_model(), **progress}
