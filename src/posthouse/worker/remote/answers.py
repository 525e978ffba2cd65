"""Interpret the server's responses."""

from __future__ import annotations

from typing import Any

import httpx
from pydantic_core import from_json

from posthouse.errors import (
    ArtifactNotFound,
    Forbidden,
    InvalidArtifact,
    LeaseLost,
    NotAuthenticated,
    PosthouseError,
    Refused,
    ServerUnavailable,
)

_LATER = {408, 425, 429}
_OURS: dict[str, type[PosthouseError]] = {
    kind.code: kind for kind in (LeaseLost, NotAuthenticated, Forbidden, ArtifactNotFound, InvalidArtifact)
}


def content_of(response: httpx.Response) -> Any:
    """Return the JSON of a response. Raises the error that it contains."""
    if response.is_success:
        return from_json(response.content) if response.content else None
    raise error_of(response)


def error_of(response: httpx.Response) -> PosthouseError:
    code, detail = _problem(response)
    if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or response.status_code in _LATER:
        return ServerUnavailable(detail)
    return _OURS.get(code, Refused)(detail)


def _problem(response: httpx.Response) -> tuple[str, str]:
    """Return code and message. A proxy may respond in a form of its own."""
    try:
        problem = from_json(response.content)
        return str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return "", f"{response.url.host} answered with {response.status_code}"
