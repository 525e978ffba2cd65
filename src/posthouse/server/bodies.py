"""Bodies of requests: read up to a limit, and as JSON that Postgres will take. Nothing else gets in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from posthouse.core.payload import contains_nul

LIFT = "posthouse.lift"
"""In the scope of a request: what lifts the limit of its body (envelope.py)."""
WORKER_BYTES = 64 * 2**20
"""Of a body that a worker sends: results, follow-ups and log lines of many jobs at once."""


class _Strict(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = read_json(await self.body())
        return self._json


class _OfWorkers(Request):
    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            self.scope[LIFT](WORKER_BYTES)
        return await super().body()

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = read_any_json(await self.body())
        return self._json


class _Route(APIRoute):
    reading: type[Request] = _Strict

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_reading(request: Request) -> Response:
            return await handle(self.reading(request.scope, request.receive))

        return handle_reading


class _RouteOfWorkers(_Route):
    reading = _OfWorkers


def api_router(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=_Route)


def worker_router(prefix: str, tag: str) -> APIRouter:
    """For what handlers put out, which could be anything: it is stored escaped."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=_RouteOfWorkers)


def read_any_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, f"the body is not JSON: {error}") from None


async def file_body(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """The body of a request that brings a file, piece by piece: of up to so many bytes, and for as long as
    pieces keep coming. Other bodies are small.
    """
    request.scope[LIFT](most_bytes)
    async for piece in request.stream():
        yield piece


def read_json(data: bytes) -> Any:
    """Strictly. Python's own reader takes NaN and lone surrogates, and nesting is its end."""
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise HTTPException(422, f"the body is not JSON that can be stored: {error}") from None
    if rb"\u0000" in data and contains_nul(data):
        raise HTTPException(422, "the body contains a NUL character, which Postgres cannot store")
    return value
