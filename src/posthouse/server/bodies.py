"""Bodies of requests: read up to a limit, and as JSON that Postgres will take. Nothing else gets in."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from posthouse.core.payload import contains_nul


class JsonRequest(Request):
    """Reads its JSON strictly. Python's own reader takes NaN and lone surrogates, and nesting is its end."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = read_json(await self.body())
        return self._json


class Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return strict


def api_router(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=Route)


def read_json(data: bytes) -> Any:
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise HTTPException(422, f"the body is not JSON that can be stored: {error}") from None
    if rb"\u0000" in data and contains_nul(data):
        raise HTTPException(422, "the body contains a NUL character, which Postgres cannot store")
    return value
