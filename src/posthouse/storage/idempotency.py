"""Stored responses of requests with an idempotency key, written in the transaction of the request."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.storage.queries import Db, call, call_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The record of an idempotency key, with the digest and the response of its first request.

    ``fresh``: this request is the first one.
    """

    fresh: bool
    digest: bytes
    status: int | None
    body: str | None


async def acquire_idempotency_key(
    connection: Db, tenant: str | None, key: str, digest: bytes
) -> IdempotencyRecord:
    """Acquire an idempotency key. Waits for a running request with the same key."""
    (taken,) = await call_rows(
        connection, "acquire_idempotency_key", IdempotencyRecord, tenant=tenant, key=key, digest=digest
    )
    return taken


async def save_response(connection: Db, tenant: str | None, key: str, status: int, body: str) -> None:
    await call(connection, "save_response", tenant=tenant, key=key, status=status, body=body)
