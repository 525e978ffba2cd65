"""Pages of a list: keyset cursors, which stay quick and steady however deep one reads."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from fastapi import Query

from posthouse.errors import InvalidRequest

T = TypeVar("T")

MOST = 200
Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """``next_cursor`` is null on the last page."""

    items: list[T]
    next_cursor: str | None


def cursor_of(last: UUID) -> str:
    return base64.urlsafe_b64encode(last.bytes).decode().rstrip("=")


def read_cursor(text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error):
        raise InvalidRequest("cursor is none that was given out here") from None
