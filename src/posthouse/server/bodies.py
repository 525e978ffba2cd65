"""Bodies of requests: read up to a limit, and as JSON that Postgres will take. Nothing else gets in."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from posthouse.core.payload import contains_nul


class _Reading(Request):
    """Reads its JSON by a reader of ours."""

    read: Callable[[bytes], Any]

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = type(self).read(await self.body())
        return self._json


class _Strict(_Reading):
    @staticmethod
    def read(data: bytes) -> Any:
        return read_json(data)


class _Lenient(_Reading):
    @staticmethod
    def read(data: bytes) -> Any:
        return read_any_json(data)


class _Route(APIRoute):
    reading: type[_Reading] = _Strict

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_reading(request: Request) -> Response:
            return await handle(self.reading(request.scope, request.receive))

        return handle_reading


class _RouteOfWorkers(_Route):
    reading = _Lenient


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


def read_json(data: bytes) -> Any:
    """Strictly. Python's own reader takes NaN and lone surrogates, and nesting is its end."""
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise HTTPException(422, f"the body is not JSON that can be stored: {error}") from None
    if rb"\u0000" in data and contains_nul(data):
        raise HTTPException(422, "the body contains a NUL character, which Postgres cannot store")
    return value
