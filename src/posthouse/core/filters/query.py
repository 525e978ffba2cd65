"""The query of a filter: the conditions of its terms, as the database expects them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from posthouse.core.filters.values import (
    FIELDS,
    WORD,
    Filter,
    IdRange,
    Json,
    Numbers,
    Takes,
    Term,
    Text,
    Times,
    Value,
    digits_of,
)
from posthouse.core.ids import first_id_at
from posthouse.core.states import Status

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?([eE][+-]?\d{1,2})?")
_NAMED = {"true", "false", "null"}
_PIECES = {"%": r"\%", "_": r"\_", "\\": r"\\"}
_IDS = 1 << 128

Condition = dict[str, Any]
Known = Mapping[str, frozenset[str]]
"""Whether words without a field are a kind, a subject, or both."""


def condition(term: Term, now: datetime, known: Known) -> Condition:
    if term.field == WORD:
        either = [asked for value in term.values for asked in _meant(value, known)]
        # A single condition is used as it is, so that its index is used.
        asked = either[0] if len(either) == 1 else {"field": "any", "terms": either}
    else:
        asked = {"field": term.field, **_asked(term, now)}
    return {**asked, "negated": term.negated}


def _meant(value: Value, known: Known) -> list[Condition]:
    if not isinstance(value, Text):
        return []
    found: list[Condition] = [
        {"field": field, "exact": [value.text], "like": []}
        for field in ("kind", "subject")
        if field in known.get(value.text, ())
    ]
    digits = digits_of(value.text)
    return [*found, {"field": "id", "ranges": [_ids(IdRange(digits, ""))]}] if digits else found


def _asked(term: Term, now: datetime) -> Condition:
    match FIELDS[term.field].takes:
        case Takes.TIME:
            return {"ranges": [_moments(value, now) for value in term.values if isinstance(value, Times)]}
        case Takes.NUMBER:
            numbers = [value for value in term.values if isinstance(value, Numbers)]
            return {"ranges": [{"low": value.low, "below": value.below} for value in numbers]}
        case Takes.ID:
            return {"ranges": [_ids(value) for value in term.values if isinstance(value, IdRange)]}
        case Takes.JSON:
            return {"path": _path(term.path, [value for value in term.values if isinstance(value, Json)])}
        case Takes.PIECE:
            return {"exact": [], "like": [f"%{_plain(text.text)}%" for text in term.texts]}
        case _:
            return _text(term)


def _text(term: Term) -> Condition:
    """Return the condition of texts.

    Fingerprints also match by prefix, because they are shown shortened. Ids of workers do too, in SQL.
    """
    begins = term.field == "fingerprint"
    return {
        "exact": [value.text for value in term.texts if not (value.open_end or begins)],
        "like": [f"{_plain(value.text)}%" for value in term.texts if value.open_end or begins],
    }


def _plain(text: str) -> str:
    return "".join(_PIECES.get(letter, letter) for letter in text)


def _moments(value: Times, now: datetime) -> Condition:
    since, until = value.bounds(now)
    return {"low": since and since.isoformat(), "below": until and until.isoformat()}


def _ids(value: IdRange) -> Condition:
    above = value.high + 1
    return {"low": str(UUID(int=value.low)), "below": str(UUID(int=above)) if above < _IDS else None}


def _path(steps: tuple[str, ...], values: list[Json]) -> str:
    """Return a JSON path. The path descends into lists, so that payload.tags:blue matches an element."""
    path = "".join(f".{json.dumps(step)}" for step in steps)
    if any(value.open_end and not value.text for value in values):
        return f"${path}"
    asked = " || ".join(each for value in values for each in _compared(value))
    return f"${path} ? ({asked})"


def _compared(value: Json) -> list[str]:
    text = json.dumps(value.text)
    if value.open_end:
        return [f"@ starts with {text}"]
    if value.comparison != "==":
        return [f"@ {value.comparison} {value.text}"]
    as_text = [f"@ == {text}"]
    if value.quoted or not (value.text in _NAMED or _NUMBER.fullmatch(value.text)):
        return as_text
    return [*as_text, f"@ == {value.text}"]


FIRST_ID, LAST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)
MAX_CLOCK_SKEW = timedelta(hours=1)
"""Maximum clock difference between the creator of an id and the database.

An hour, because a search by time must not miss jobs: it uses ids only to skip most rows and then compares
the real times. The live view reads its range with every poll and allows less.
"""
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
class JobQuery:
    """A search for jobs.

    ``by`` is the index to use, with its values; otherwise jobs are scanned in the order of their ids.
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
        """Return the search as posthouse.search_jobs expects it."""
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


def plan_search(
    chosen: Filter,
    now: datetime,
    *,
    tenant: str | None = None,
    known: Known | None = None,
    among: frozenset[Status] = ALL,
) -> JobQuery:
    """Plan a search.

    ``known`` has the meaning of words without a field. ``among``: only jobs with these statuses.
    """
    conditions = [condition(term, now, known or {}) for term in chosen.terms]
    found = JobQuery(conditions, statuses=among, tenants=None if tenant is None else [tenant])
    for item in conditions:
        _narrow(found, item)
    return found


def _narrow(found: JobQuery, item: Condition) -> None:
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


def _of_tenants(found: JobQuery, names: list[str]) -> None:
    mine = found.tenants
    found.tenants = sorted(set(names) if mine is None else set(names) & set(mine))


def _outermost(choose: Callable[[Iterable[str]], str], ends: list[str | None]) -> str | None:
    """Return the outermost bound of all ranges; None if one of them is unbounded."""
    given = [end for end in ends if end is not None]
    return choose(given) if len(given) == len(ends) else None


def _within_ids(found: JobQuery, low: str | None, below: str | None) -> None:
    found.lowest = max(found.lowest, UUID(low) if low else FIRST_ID)
    found.below = min(found.below, UUID(below) if below else LAST_ID)


def _created(found: JobQuery, low: str | None, below: str | None) -> None:
    if low is not None:
        since = datetime.fromisoformat(low)
        found.lowest = max(found.lowest, first_id_at(moved(since, -MAX_CLOCK_SKEW)))
        _ended(found, low, None)  # no job finishes before it was enqueued
    if below is not None:
        found.below = min(found.below, first_id_at(moved(datetime.fromisoformat(below), MAX_CLOCK_SKEW)))


def _ended(found: JobQuery, low: str | None, below: str | None) -> None:
    if low is not None:
        since = datetime.fromisoformat(low)
        found.finished_since = max(found.finished_since or since, since)
    if below is not None:
        until = datetime.fromisoformat(below)
        found.finished_until = min(found.finished_until or until, until)


_RANGED: dict[str, Callable[[JobQuery, str | None, str | None], None]] = {
    "id": _within_ids,
    "created": _created,
    "finished": _ended,
}


def moved(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return moment.replace(tzinfo=moment.tzinfo or UTC)
