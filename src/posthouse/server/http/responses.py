"""JSON responses: ETags, preconditions, and pages.

Pages use keyset cursors, which are fast and stable at any depth.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query, Request, Response
from pydantic import AfterValidator
from pydantic_core import to_json

from posthouse.errors import EditConflict, InvalidRequest
from posthouse.server.http.field_names import body as body_of

JSON = "application/json"


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response from a dataclass, a model or plain data.

    The value is not validated against the response_model of the route: the schemathesis tests do that, and a
    second validation would only make each response slower.
    """
    return Response(body_of(value), status, headers, JSON)


def etag_response(request: Request, value: Any, version: int | None = None) -> Response:
    """Return a JSON response with an ETag, or 304 if If-None-Match matches.

    ``version`` counts the changes made through the API.
    """
    body = body_of(value)
    tag = f'W/"{"" if version is None else f"{version}-"}{hashlib.blake2s(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _tag_value(tag) in _tags(request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)


def check_if_match(request: Request, version: int) -> None:
    """Raise EditConflict if the If-Match header names another version.

    Changes that the platform makes itself (a trigger fires) change the ETag but not the version.
    """
    wanted = request.headers.get("if-match")
    if wanted is None or wanted.strip() == "*":
        return
    if str(version) not in {tag.partition("-")[0] for tag in _tags(wanted)}:
        raise EditConflict(f"version conflict: the current version is {version}; reload and try again")


def _tags(header: str | None) -> set[str]:
    return {_tag_value(item) for item in (header or "").split(",") if item.strip()}


def _tag_value(tag: str) -> str:
    return tag.strip().removeprefix("W/").strip('"')


T = TypeVar("T")

MAX_LIMIT = 200
MAX_OFFSET = 10_000


def clamp_limit(limit: int) -> int:
    return min(limit, MAX_LIMIT)


Limit = Annotated[
    int,
    Query(ge=1, description=f"Page size; values above {MAX_LIMIT} are clamped to {MAX_LIMIT}."),
    AfterValidator(clamp_limit),
]
Cursor = Annotated[str | None, Query(max_length=400, description="`next_cursor` of the previous page.")]
Offset = Annotated[
    int,
    Query(
        ge=0,
        description=f"Rows to skip; values above {MAX_OFFSET:,} are clamped. Prefer `cursor`, which is "
        "faster and stable while rows are inserted.",
    ),
]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. ``next_cursor`` is null on the last page."""

    items: list[T]
    next_cursor: str | None


def clamp_offset(offset: int) -> int:
    return min(offset, MAX_OFFSET)


def page(found: Sequence[T], limit: int, *keys: str) -> Page[T]:
    """Return a page with at most ``limit`` items.

    ``keys``: the fields of its last item that make up the next cursor.
    """
    last = found[-1] if len(found) >= limit else None
    return Page(list(found), None if last is None else encode_cursor(*(getattr(last, key) for key in keys)))


def encode_cursor(*values: Any) -> str:
    return base64.urlsafe_b64encode(to_json(values)).decode().rstrip("=")


def decode_cursor(text: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """Return the values of a cursor, of the given types: UUID, datetime, int or str."""
    if text is None:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return tuple(_READ[kind](value) for kind, value in zip(kinds, values, strict=True))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise InvalidRequest("invalid cursor: use the next_cursor of a previous page") from None


def decode_single_cursor(text: str | None, kind: type) -> Any:
    """Return the value of a cursor with one value; None without a cursor."""
    values = decode_cursor(text, kind)
    return None if values is None else values[0]


def _number(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError(value)
    value.encode()
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment


_READ: dict[type, Any] = {UUID: UUID, datetime: _moment, int: _number, str: _text}
