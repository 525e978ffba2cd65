"""Jobs by a part of their id, as people copy it from a list."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from posthouse.storage.queries import Db, fetch

DIGITS = 32
SEARCHED = 100_000
"""Newest jobs of each table that a search by suffix reads, at most."""
_DASH_AFTER = (12, 16, 20, 24)
"""Digits behind each dash of an id, counted from its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedJob:
    """A job whose id matches."""

    id: UUID
    kind: str
    status: str


async def jobs_by_part_of_id(
    connection: Db, digits: str, *, limit: int = 10, searched: int = SEARCHED
) -> list[MatchedJob]:
    """Return jobs whose id starts or ends with these hexadecimal digits, newest first.

    A suffix is searched among the newest ``searched`` jobs of each table.
    """
    dashes = sum(len(digits) > behind for behind in _DASH_AFTER)
    return await fetch(
        connection,
        "jobs_by_part_of_id",
        MatchedJob,
        lowest=UUID(digits.ljust(DIGITS, "0")),
        highest=UUID(digits.ljust(DIGITS, "f")),
        suffix=str(UUID(digits.rjust(DIGITS, "0")))[-(len(digits) + dashes) :],
        searched=searched,
        limit=limit,
    )
