"""Database access of the handlers. Each statement handles all texts of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from embeddings.settings import DIMENSIONS

Db = AsyncConnection[Any]


class Text(NamedTuple):
    """The key of a vector."""

    tenant: str
    model: str
    text_hash: str


@dataclass(frozen=True)
class Wish:
    """The request of a job."""

    text: Text
    input_text: str
    rule: UUID


class Found(NamedTuple):
    """The state of a request in the database."""

    rule_exists: bool
    is_current: bool
    has_vector: bool


@cache
def statement(name: str) -> str:
    return (files("embeddings") / "sql" / f"{name}.sql").read_text()


async def take(db: Db, texts: Sequence[Text]) -> set[Text]:
    """Lock the texts until the end of the transaction; return those that no other worker has locked."""
    rows = await _rows(db, "take_texts", _columns(texts))
    return {texts[nth - 1] for nth, taken in rows if taken}


async def find(db: Db, wishes: Sequence[Wish]) -> list[Found]:
    columns = _columns([wish.text for wish in wishes]) | {"rules": [wish.rule for wish in wishes]}
    return [Found(*known) for _, *known in await _rows(db, "find_texts", columns)]


async def keep(db: Db, vectors: Mapping[Text, Sequence[float]]) -> None:
    if vectors:
        more = {
            "vectors": [written(vector) for vector in vectors.values()],
            "dimensions": [len(vector) for vector in vectors.values()],
        }
        await db.execute(statement("keep_vectors"), _columns(list(vectors)) | more)


async def attach(db: Db, wishes: Sequence[Wish]) -> dict[Text, int]:
    """Store the vectors in the rules; return the dimensions of each text that a rule still has."""
    columns = _columns([wish.text for wish in wishes]) | {"rules": [wish.rule for wish in wishes]}
    rows = await _rows(db, "attach_vectors", columns)
    return {Text(*key): dimensions for *key, dimensions in rows}


async def _rows(db: Db, name: str, parameters: Mapping[str, Any]) -> list[Any]:
    return await (await db.execute(statement(name), parameters)).fetchall()


def _columns(texts: Sequence[Text]) -> dict[str, Any]:
    return {
        "tenants": [text.tenant for text in texts],
        "models": [text.model for text in texts],
        "hashes": [text.text_hash for text in texts],
    }


def written(vector: Sequence[float]) -> str:
    """Return the vector in the text format of pgvector, padded to the length of the column."""
    numbers = [format(number, ".8g") for number in vector]
    return f"[{','.join([*numbers, *['0'] * (DIMENSIONS - len(numbers))])}]"
