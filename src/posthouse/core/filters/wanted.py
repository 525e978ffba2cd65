"""Plan how the jobs of a filter are found: the index to use, and the conditions to check on each job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from posthouse.core.filters.conditions import Condition, Known, condition
from posthouse.core.filters.values import Filter
from posthouse.core.ids import first_id_at
from posthouse.core.states import Status

FIRST_ID, LAST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)
CLOCKS_AGREE = timedelta(hours=1)
"""Maximum clock difference between the creator of an id and the database."""
ALL = frozenset(Status)
UNSUCCESSFUL = frozenset({Status.FAILED, Status.DEAD_LETTER, Status.CANCELED})
_IMPLIED = {
    "finished": frozenset(status for status in Status if status.ended),
    "fingerprint": UNSUCCESSFUL,
    "error": ALL - {Status.SUCCEEDED},
    "worker": ALL - {Status.QUEUED},
}
"""Statuses that a job with this property can have."""
_INDEXED = ("subject", "correlation")


@dataclass(slots=True)
class Wanted:
    """A search. ``by`` is the index to use, with its values; otherwise jobs are scanned in the order of their
    ids.
    """

    conditions: list[Condition]
    statuses: frozenset[Status] = ALL
    tenants: list[str] | None = None
    by: tuple[str, list[str]] | None = None
    lowest: UUID = FIRST_ID
    below: UUID = LAST_ID
    finished_since: datetime | None = None
    finished_until: datetime | None = None

    @property
    def nothing(self) -> bool:
        """Whether no job can match."""
        impossible = any(
            item["field"] == "any" and not item["terms"] and not item["negated"] for item in self.conditions
        )
        return impossible or not self.statuses or self.tenants == [] or self.lowest >= self.below

    def as_json(self) -> dict[str, Any]:
        """The search as posthouse.sift_jobs expects it."""
        given = {
            "conditions": self.conditions,
            "statuses": [] if self.nothing else sorted(self.statuses),
            "narrowed": self.statuses != ALL,
            "tenants": self.tenants,
            "by": self.by and self.by[0],
            "values": self.by and self.by[1],
            "lowest": str(self.lowest),
            "below": str(self.below),
            "finished_since": self.finished_since and self.finished_since.isoformat(),
            "finished_until": self.finished_until and self.finished_until.isoformat(),
        }
        return {name: value for name, value in given.items() if value is not None}


def wanted(
    chosen: Filter,
    now: datetime,
    *,
    tenant: str | None = None,
    known: Known | None = None,
    among: frozenset[Status] = ALL,
) -> Wanted:
    """Plan a search. ``known`` tells what words without a field are. ``among``: only jobs in these tables."""
    conditions = [condition(term, now, known or {}) for term in chosen.terms]
    found = Wanted(conditions, statuses=among, tenants=None if tenant is None else [tenant])
    for item in conditions:
        _narrow(found, item)
    return found


def _narrow(found: Wanted, item: Condition) -> None:
    name = item["field"]
    if name == "status":
        named = frozenset(Status(value) for value in item["exact"])
        found.statuses = found.statuses - named if item["negated"] else found.statuses & named
    if item["negated"]:
        return
    found.statuses &= _IMPLIED.get(name, ALL)
    if name == "tenant" and not item["like"]:
        _of_tenants(found, item["exact"])
    elif name in _INDEXED and not item["like"] and found.by is None:
        found.by = (name, sorted(set(item["exact"])))
    elif name in _RANGED:
        low = _outermost(min, [part["low"] for part in item["ranges"]])
        below = _outermost(max, [part["below"] for part in item["ranges"]])
        _RANGED[name](found, low, below)


def _of_tenants(found: Wanted, names: list[str]) -> None:
    mine = found.tenants
    found.tenants = sorted(set(names) if mine is None else set(names) & set(mine))


def _outermost(choose: Callable[[Iterable[str]], str], ends: list[str | None]) -> str | None:
    """Return the outermost bound of all ranges; None if one of them is unbounded."""
    given = [end for end in ends if end is not None]
    return choose(given) if len(given) == len(ends) else None


def _within_ids(found: Wanted, low: str | None, below: str | None) -> None:
    found.lowest = max(found.lowest, UUID(low) if low else FIRST_ID)
    found.below = min(found.below, UUID(below) if below else LAST_ID)


def _created(found: Wanted, low: str | None, below: str | None) -> None:
    if low is not None:
        since = datetime.fromisoformat(low)
        found.lowest = max(found.lowest, first_id_at(moved(since, -CLOCKS_AGREE)))
        _ended(found, low, None)  # no job finishes before it was enqueued
    if below is not None:
        found.below = min(found.below, first_id_at(moved(datetime.fromisoformat(below), CLOCKS_AGREE)))


def _ended(found: Wanted, low: str | None, below: str | None) -> None:
    if low is not None:
        since = datetime.fromisoformat(low)
        found.finished_since = max(found.finished_since or since, since)
    if below is not None:
        until = datetime.fromisoformat(below)
        found.finished_until = min(found.finished_until or until, until)


_RANGED: dict[str, Callable[[Wanted, str | None, str | None], None]] = {
    "id": _within_ids,
    "created": _created,
    "finished": _ended,
}


def moved(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return moment.replace(tzinfo=moment.tzinfo or UTC)
