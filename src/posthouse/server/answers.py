"""JSON responses, ETags, and checks of If-None-Match and If-Match."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import Request, Response

from posthouse.errors import ChangedMeanwhile
from posthouse.server.names import body as body_of

JSON = "application/json"


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response from a dataclass, a model or plain data.

    It is not validated against the response_model of the route: the schemathesis tests do that, and a second
    validation per response would only cost time.
    """
    return Response(body_of(value), status, headers, JSON)


def tagged(request: Request, value: Any, version: int | None = None) -> Response:
    """Return a JSON response with an ETag, or 304 if If-None-Match matches.

    ``version`` counts the changes made through the API.
    """
    body = body_of(value)
    tag = f'W/"{"" if version is None else f"{version}-"}{hashlib.blake2s(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _opaque(tag) in _tags(request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


def unchanged(request: Request, version: int) -> None:
    """Raise ChangedMeanwhile if the If-Match header names another version.

    Changes that the platform makes itself (a trigger fires) change the ETag but not the version.
    """
    wanted = request.headers.get("if-match")
    if wanted is None or wanted.strip() == "*":
        return
    if str(version) not in {tag.partition("-")[0] for tag in _tags(wanted)}:
        raise ChangedMeanwhile(f"version conflict: the current version is {version}; reload and try again")


def _tags(header: str | None) -> set[str]:
    return {_opaque(item) for item in (header or "").split(",") if item.strip()}


def _opaque(tag: str) -> str:
    return tag.strip().removeprefix("W/").strip('"')
