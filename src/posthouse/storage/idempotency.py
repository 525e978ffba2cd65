"""Stored responses of requests with an idempotency key, written in the transaction of the request."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.storage.queries import Db, call, call_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """``fresh``: the key is new. Otherwise the digest and the response of the first request with it."""

    fresh: bool
    digest: bytes
    status: int | None
    body: str | None


async def take_request_key(connection: Db, tenant: str | None, key: str, digest: bytes) -> Taken:
    """Take an idempotency key. Waits for a running request with the same key."""
    (taken,) = await call_rows(connection, "take_request_key", Taken, tenant=tenant, key=key, digest=digest)
    return taken


async def keep_answer(connection: Db, tenant: str | None, key: str, status: int, body: str) -> None:
    await call(connection, "keep_answer", tenant=tenant, key=key, status=status, body=body)
