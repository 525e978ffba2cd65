"""Conditions of the terms, as posthouse.fits in filters.sql expects them: texts with ``exact`` values
and ``like`` patterns, ``ranges`` from ``low`` (included) to ``below`` (excluded), a JSON ``path``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.filters.fields import FIELDS, WORD, Takes
from posthouse.core.filters.times import digits_of
from posthouse.core.filters.values import Ids, Json, Numbers, Term, Text, Times, Value

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?([eE][+-]?\d{1,2})?")
_NAMED = {"true", "false", "null"}
_PIECES = {"%": r"\%", "_": r"\_", "\\": r"\\"}
_IDS = 1 << 128

Condition = dict[str, Any]
Known = Mapping[str, frozenset[str]]
"""For words without a field: whether they are a kind, a subject, or both."""


def condition(term: Term, now: datetime, known: Known) -> Condition:
    if term.field == WORD:
        either = [asked for value in term.values for asked in _meant(value, known)]
        # A term with a single condition is that condition, and is found by its index.
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
    return [*found, {"field": "id", "ranges": [_ids(Ids(digits, ""))]}] if digits else found


def _asked(term: Term, now: datetime) -> Condition:
    match FIELDS[term.field].takes:
        case Takes.TIME:
            return {"ranges": [_moments(value, now) for value in term.values if isinstance(value, Times)]}
        case Takes.NUMBER:
            numbers = [value for value in term.values if isinstance(value, Numbers)]
            return {"ranges": [{"low": value.low, "below": value.below} for value in numbers]}
        case Takes.ID:
            return {"ranges": [_ids(value) for value in term.values if isinstance(value, Ids)]}
        case Takes.JSON:
            return {"path": _path(term.path, [value for value in term.values if isinstance(value, Json)])}
        case Takes.PIECE:
            return {"exact": [], "like": [f"%{_plain(text.text)}%" for text in term.texts]}
        case _:
            return _text(term)


def _text(term: Term) -> Condition:
    """Fingerprints and workers also match by prefix, because they are shown shortened."""
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


def _ids(value: Ids) -> Condition:
    above = value.high + 1
    return {"low": str(UUID(int=value.low)), "below": str(UUID(int=above)) if above < _IDS else None}


def _path(steps: tuple[str, ...], values: list[Json]) -> str:
    """Return a JSON path. It descends into lists, so that payload.tags:blue matches an element."""
    place = "".join(f".{json.dumps(step)}" for step in steps)
    if any(value.open_end and not value.text for value in values):
        return f"${place}"
    asked = " || ".join(each for value in values for each in _compared(value))
    return f"${place} ? ({asked})"


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
