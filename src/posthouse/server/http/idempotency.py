"""Idempotency-Key: a repeated request returns the first response and changes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Header, Request, Response

from posthouse.errors import IdempotencyKeyReused, InvalidRequest
from posthouse.server.http.auth import Access
from posthouse.server.http.responses import JSON
from posthouse.storage.idempotency import acquire_idempotency_key, save_response
from posthouse.storage.queries import Db

_SHAPE = re.compile(r"[\x21-\x7e]{1,255}")
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="A unique string of up to 255 characters. Repeating a request with the same key and body "
        "within 24 hours returns the first response."
    ),
]


async def run_idempotent(
    request: Request, access: Access, key: str | None, work: Callable[[Db], Awaitable[Response]]
) -> Response:
    """Do the work in a transaction; for a repeated key, return the stored response instead.

    If the work raises, everything is rolled back and the key can be used again.
    """
    if key is not None and not _SHAPE.fullmatch(key):
        raise InvalidRequest(
            "invalid Idempotency-Key: use 1 to 255 printable ASCII characters without spaces"
        )
    async with access.transaction() as db:
        if key is None:
            return await work(db)
        taken = await acquire_idempotency_key(db, access.tenant, key, digest := await _digest(request))
        if taken.fresh:
            done = await work(db)
            await save_response(db, access.tenant, key, done.status_code, bytes(done.body).decode())
            return done
    if taken.digest != digest:
        raise IdempotencyKeyReused(
            f"Idempotency-Key {key!r} was already used with a different request; use a new key"
        )
    return Response(taken.body, taken.status or 200, {"Idempotency-Replayed": "true"}, JSON)


async def _digest(request: Request) -> bytes:
    """Return the digest of method, URL and body."""
    about = f"{request.method} {request.url.path}?{request.url.query}\n"
    return hashlib.sha256(about.encode() + await request.body()).digest()
