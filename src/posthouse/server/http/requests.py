"""Requests: bodies, shared parameters and idempotency keys.

Bodies are read up to a size limit and parsed as JSON that Postgres can store. A request that is repeated with
its idempotency key returns the first response and changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from posthouse.core.payload import contains_nul, parse_json, values_of, without_strings
from posthouse.errors import IdempotencyKeyReused, InvalidRequest
from posthouse.identity import Permission
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.responses import JSON
from posthouse.storage.queries import Db, call, call_rows
from posthouse.waiting import in_thread

LIMIT_BODY = "posthouse.limit_body"
"""Key in the request scope: the function that sets the size limit of the body (middleware.py)."""
SMALL_BYTES = 32_768
"""Size limit of bodies without a payload. The largest legal one is a login with a JSON Web Token."""
WORKER_BYTES = 64 * 2**20
"""Size limit of a worker's body: results, follow-ups and log lines of many jobs at once."""
MAX_VALUES = 100_000
"""JSON values in a body. Each one costs about 100 bytes and 1 µs, independent of its own size."""
WORKER_VALUES = 500_000
LARGE_BYTES = 65_536
"""Size from which parsing takes a millisecond or more."""


async def _parsed(read: Callable[[bytes], Any], data: bytes) -> Any:
    """Parse a body. Large bodies are parsed one at a time, so that other requests are served in between."""
    return await in_thread(read, data) if len(data) > LARGE_BYTES else read(data)


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await _parsed(read_json, await self.body())
        return self._json


class _SmallRequest(_StrictRequest):
    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            self.scope[LIMIT_BODY](SMALL_BYTES)
        return await super().body()


class _WorkerRequest(Request):
    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            self.scope[LIMIT_BODY](WORKER_BYTES)
        return await super().body()

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await _parsed(read_any_json, await self.body())
        return self._json


class _Route(APIRoute):
    reading: type[Request] = _SmallRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_reading(request: Request) -> Response:
            return await handle(self.reading(request.scope, request.receive))

        return handle_reading


class _PayloadRoute(_Route):
    reading = _StrictRequest


class _WorkerRoute(_Route):
    reading = _WorkerRequest


def api_router(prefix: str, tag: str, *, payloads: bool = False) -> APIRouter:
    """Return a router for small bodies; ``payloads``: for bodies with payloads or schemas."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=_PayloadRoute if payloads else _Route)


def worker_router(prefix: str, tag: str) -> APIRouter:
    """Return a router for handler output, which may contain any text: it is escaped before it is stored."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=_WorkerRoute)


def read_any_json(data: bytes) -> Any:
    check_value_count(data, WORKER_VALUES)
    try:
        return parse_json(data)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, f"the request body is not valid JSON: {error}") from None


async def file_body(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body of a file upload in pieces, up to ``max_bytes``.

    The upload may take as long as pieces keep arriving. Other bodies have the normal size and time limits.
    """
    request.scope[LIMIT_BODY](max_bytes, is_file=True)
    async for piece in request.stream():
        yield piece


def read_json(data: bytes) -> Any:
    """Parse strictly. Python's json accepts NaN and lone surrogates, and deep nesting overflows its stack."""
    check_value_count(data)
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise HTTPException(422, f"the request body is not valid JSON: {error}") from None
    if rb"\u0000" in data and contains_nul(data):
        raise HTTPException(
            422, "the request body contains a NUL character (\\u0000), which Postgres cannot store; remove it"
        )
    return value


def check_value_count(data: bytes, most: int = MAX_VALUES) -> None:
    """Raise 413 for a body with too many values, before it is parsed.

    A value takes at least two bytes, so small bodies are not counted. In other bodies the separators are
    counted; the first count includes those in strings and is an upper limit.
    """
    if len(data) < 2 * most or values_of(data) <= most:
        return
    if values_of(without_strings(data)) > most:
        raise HTTPException(
            413, f"the request body has more than {most:,} JSON values; send less data per request"
        )


JobReader = Annotated[Access, allow(Permission.JOBS_READ, tenant_scoped=True)]
JobWriter = Annotated[Access, allow(Permission.JOBS_WRITE, tenant_scoped=True)]
QueryText = Annotated[str | None, Query(min_length=1, max_length=512)]

_LAST_YEAR = 9000


def _validate_datetime(moment: datetime) -> datetime:
    """Return the time in UTC.

    A time without a zone is taken as UTC, because queries are often typed by hand. The ends of the calendar
    are rejected, because Postgres does not accept every time that Python does.
    """
    if not 1 < moment.year < _LAST_YEAR:
        raise ValueError(f"the year must be between 2 and {_LAST_YEAR - 1}")
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


ApiDatetime = Annotated[datetime, AfterValidator(_validate_datetime)]


_SHAPE = re.compile(r"[\x21-\x7e]{1,255}")
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="A unique string of up to 255 characters. Repeating a request with the same key and body "
        "within 24 hours returns the first response."
    ),
]


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
    content = f"{request.method} {request.url.path}?{request.url.query}\n"
    return hashlib.sha256(content.encode() + await request.body()).digest()
