"""Encode erasures for the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from posthouse.core.erasure import Erasure
from posthouse.errors import InvalidRequest


def erase_text(subject: str, tenant: str, actor: str) -> str:
    """Return the JSON for sql/erase.sql."""
    if not subject or "\0" in subject:
        raise InvalidRequest("invalid subject: it must be a text of at least one character, without NUL")
    return to_json({"subject": subject, "tenant": tenant, "actor": actor}).decode()


def erasure_of(rows: Sequence[Sequence[Any]]) -> Erasure:
    return Erasure(*rows[0])
