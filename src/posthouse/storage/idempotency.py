"""Answers that are kept for requests that may be repeated, in the transaction of what they did."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.storage.reading import Db, fetch, fetch_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """``fresh``: nobody had the key. Else the digest of the request that did, and its answer."""

    fresh: bool
    digest: bytes
    status: int | None
    body: str | None


async def take_request_key(connection: Db, tenant: str | None, key: str, digest: bytes) -> Taken:
    """Waits for a request with this key that is at work."""
    (taken,) = await fetch(connection, "request_key_take", Taken, tenant=tenant, key=key, digest=digest)
    return taken


async def keep_answer(connection: Db, tenant: str | None, key: str, status: int, body: str) -> None:
    await fetch_value(connection, "request_answer_keep", tenant=tenant, key=key, status=status, body=body)
