"""Idempotency-Key: a request that is repeated gets the answer of the first, and does nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Header, Request, Response

from posthouse.errors import IdempotencyKeyReused, InvalidRequest
from posthouse.server.access import Access
from posthouse.server.answers import JSON
from posthouse.storage.idempotency import keep_answer, take_request_key
from posthouse.storage.reading import Db

_SHAPE = re.compile(r"[\x21-\x7e]{1,255}")
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="Any text of your own, up to 255 characters. A repeat with the same key and body within "
        "a day gets the answer of the first, and does nothing."
    ),
]


async def once(
    request: Request, access: Access, key: str | None, work: Callable[[Db], Awaitable[Response]]
) -> Response:
    """Does the work in a transaction; not again if the request has a key that was here before.

    What the work raises undoes it all: the key is free again.
    """
    if key is not None and not _SHAPE.fullmatch(key):
        raise InvalidRequest("an Idempotency-Key has up to 255 printable ASCII characters and no spaces")
    async with access.session() as db:
        if key is None:
            return await work(db)
        taken = await take_request_key(db, access.whose, key, digest := await _digest(request))
        if taken.fresh:
            done = await work(db)
            await keep_answer(db, access.whose, key, done.status_code, bytes(done.body).decode())
            return done
    if taken.digest != digest:
        raise IdempotencyKeyReused("this Idempotency-Key came with another request before: make a new one")
    return Response(taken.body, taken.status or 200, {"Idempotency-Replayed": "true"}, JSON)


async def _digest(request: Request) -> bytes:
    """Of what is asked for: where, and with which body."""
    about = f"{request.method} {request.url.path}?{request.url.query}\n"
    return hashlib.sha256(about.encode() + await request.body()).digest()
