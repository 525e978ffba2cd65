"""Vectors in the database. Each statement of a batch handles all its texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from embeddings.db import Db, Row, fetch_all, sql, text_array
from embeddings.packing import pack, register_vector_type
from embeddings.providers import Vector

LEASE = timedelta(minutes=2)
"""A batch that computes for longer may be overtaken. The lease of a dead job ends with the job."""
EXACT = 5000
"""Up to this many vectors per tenant and model are searched without the index, in about 10 ms."""
EXACT_WHEN_BUSY = 20_000
"""The same while texts wait to be embedded, in about 40 ms."""
SAMPLED = "00"
"""One text in 256 has a hash that starts with this; storing its vector counts those without the index."""


class Text(NamedTuple):
    """The key of a vector."""

    tenant: str
    model: str
    text_hash: str


@dataclass(frozen=True)
class Request:
    """The request of a job."""

    text: Text
    input_text: str
    rule: UUID
    job: UUID
    token: UUID


class Found(NamedTuple):
    """The state of a request in the database."""

    rule_exists: bool
    is_current: bool
    has_previous: bool
    """Whether the rule is found by the vector of its previous text."""
    is_taken: bool
    """Whether the request has the lease on its text."""
    dimensions: int | None
    """None: the text has no vector."""


async def take(db: Db, requests: Sequence[Request]) -> list[Found]:
    """Take leases on the texts without a vector that no other running job computes; return the states."""
    rows = await _rows(db, "take_texts", _keys(requests) | {"lease": LEASE})
    return [Found(*row) for row in rows]


async def release(db: Db, requests: Sequence[Request]) -> None:
    """Give up the leases of these requests."""
    if requests:
        tokens = {"tokens": text_array({request.token for request in requests})}  # one per claim
        await db.execute(sql("release_texts"), _columns({request.text for request in requests}) | tokens)


async def keep(db: Db, vectors: Mapping[Text, Vector]) -> None:
    """Store vectors, and request the index where it is needed."""
    if vectors:
        await register_vector_type(db)
        more = {
            "vectors": pack(list(vectors.values())),
            "dimensions": text_array(len(vector) for vector in vectors.values()),
        }
        await db.execute(sql("keep_vectors"), _columns(vectors.keys()) | more)
        for tenant, model in {text[:2] for text in vectors if text.text_hash.startswith(SAMPLED)}:
            await db.execute(sql("request_index"), {"tenant": tenant, "model": model, "exact": EXACT})


async def forget_previous(db: Db, requests: Sequence[Request]) -> None:
    """No longer find these rules by their previous texts, if their current texts have a vector."""
    if requests:
        await db.execute(sql("forget_previous"), _keys(requests))


async def sweep(db: Db, keep_unused: timedelta) -> int:
    """Delete vectors that have been unused for this long; return how many."""
    ((deleted,),) = await _rows(db, "sweep_vectors", {"keep": keep_unused})
    return int(deleted)


async def index(db: Db, tenant: str, model: str, limit: int) -> int:
    """Add up to this many vectors to the index; return how many."""
    asked = {"tenant": tenant, "model": model, "limit": limit}
    ((indexed,),) = await _rows(db, "index_vectors", asked)
    return int(indexed)


async def index_can_wait(db: Db) -> bool:
    """Return whether texts wait to be embedded, and searches are still fast."""
    ((can_wait,),) = await _rows(db, "index_can_wait", {"most": EXACT_WHEN_BUSY})
    return bool(can_wait)


async def not_indexed(db: Db) -> list[tuple[str, str]]:
    """Return the tenants and models with too many vectors that are not in the index."""
    return await _rows(db, "not_indexed", {"exact": EXACT})


async def near_rule(db: Db, rule: UUID, limit: int) -> list[Row]:
    """Return the rules most similar to a rule, by the same model. Requires a transaction."""
    await db.execute(sql("search_on"))
    return await fetch_all(db, "near_rule", {"rule": rule, "limit": limit})


async def near_text(db: Db, model: str, vector: Vector, limit: int) -> list[Row]:
    """Return the rules most similar to a vector of this model. Requires a transaction."""
    await db.execute(sql("search_on"))
    await register_vector_type(db)
    return await fetch_all(db, "near_text", {"model": model, "vectors": pack([vector]), "limit": limit})


async def _rows(db: Db, name: str, parameters: Mapping[str, Any]) -> list[Any]:
    return await (await db.execute(sql(name), parameters)).fetchall()


def _columns(texts: Collection[Text]) -> dict[str, Any]:
    tenants, models, hashes = zip(*texts, strict=True)
    return {"tenants": text_array(tenants), "models": text_array(models), "hashes": text_array(hashes)}


def _keys(requests: Sequence[Request]) -> dict[str, Any]:
    return _columns([request.text for request in requests]) | {
        "rules": text_array(request.rule for request in requests),
        "jobs": text_array(request.job for request in requests),
        "tokens": text_array(request.token for request in requests),
    }
