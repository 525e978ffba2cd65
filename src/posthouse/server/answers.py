"""Answers: JSON that is written at once, and not checked again; tags that spare sending it."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from posthouse.errors import ChangedMeanwhile

JSON = "application/json"


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Any dataclass, model or plain data. The routes say what it is like (response_model), and schemathesis
    holds them to it: to check each answer would only cost time.
    """
    return Response(to_json(value), status, headers, JSON)


def tagged(request: Request, value: Any, version: int | None = None) -> Response:
    """One thing, with a tag; 304 for whoever has it already. ``version``: what people's changes count up."""
    body = to_json(value)
    tag = f'W/"{"" if version is None else f"{version}-"}{hashlib.blake2s(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _opaque(tag) in _tags(request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


def unchanged(request: Request, version: int) -> None:
    """Refuses what was decided on another version: If-Match has the tag of the one that somebody looked at.

    What happens to a thing by itself (a trigger fires) changes its tag, but not its version.
    """
    wanted = request.headers.get("if-match")
    if wanted is None or wanted.strip() == "*":
        return
    if str(version) not in {tag.partition("-")[0] for tag in _tags(wanted)}:
        raise ChangedMeanwhile(f"it is at version {version} by now: look again")


def _tags(header: str | None) -> set[str]:
    return {_opaque(item) for item in (header or "").split(",") if item.strip()}


def _opaque(tag: str) -> str:
    return tag.strip().removeprefix("W/").strip('"')
