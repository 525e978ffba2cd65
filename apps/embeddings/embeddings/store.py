"""Vectors in the database. Each statement of a batch handles all its texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from embeddings.db import Db, Row, fetch_all, sql
from embeddings.packing import pack, send_packed
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
    has_vector: bool


async def take(db: Db, requests: Sequence[Request]) -> set[Text]:
    """Take leases on the texts without a vector; return those that no other running job computes."""
    first = {request.text: request for request in reversed(requests)}
    more = {
        "jobs": [request.job for request in first.values()],
        "tokens": [request.token for request in first.values()],
        "lease": LEASE,
    }
    return {Text(*row) for row in await _rows(db, "take_texts", _columns(list(first)) | more)}


async def release(db: Db, texts: Collection[Text], requests: Sequence[Request]) -> None:
    """Give up the leases of the requests on these texts."""
    if texts:
        tokens = {"tokens": [request.token for request in requests]}
        await db.execute(sql("release_texts"), _columns(list(texts)) | tokens)


async def find(db: Db, requests: Sequence[Request]) -> list[Found]:
    return [Found(*row) for row in await _rows(db, "find_texts", _request_columns(requests))]


async def keep(db: Db, vectors: Mapping[Text, Vector]) -> None:
    """Store vectors, and request the index where it is needed."""
    if vectors:
        await send_packed(db)
        more = {
            "vectors": [pack(vector) for vector in vectors.values()],
            "dimensions": [len(vector) for vector in vectors.values()],
        }
        await db.execute(sql("keep_vectors"), _columns(list(vectors)) | more)
        for tenant, model in {text[:2] for text in vectors if text.text_hash.startswith(SAMPLED)}:
            await db.execute(sql("request_index"), {"tenant": tenant, "model": model, "exact": EXACT})


async def attach(db: Db, requests: Sequence[Request], active: str) -> dict[UUID, int]:
    """Let the rules refer to their vectors.

    Return the rules that still have the text of their request, and the dimensions of its vector.
    """
    columns = _request_columns(requests) | {"active": active}
    return dict(await _rows(db, "attach_vectors", columns))


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
    await send_packed(db)
    return await fetch_all(db, "near_text", {"model": model, "vector": pack(vector), "limit": limit})


async def _rows(db: Db, name: str, parameters: Mapping[str, Any]) -> list[Any]:
    return await (await db.execute(sql(name), parameters)).fetchall()


def _request_columns(requests: Sequence[Request]) -> dict[str, Any]:
    return _columns([request.text for request in requests]) | {"rules": [one.rule for one in requests]}


def _columns(texts: Sequence[Text]) -> dict[str, Any]:
    return {
        "tenants": [text.tenant for text in texts],
        "models": [text.model for text in texts],
        "hashes": [text.text_hash for text in texts],
    }
