"""Parse a line to a filter. Errors name the position and suggest a correction."""

from __future__ import annotations

import re

from posthouse.core.filters.fields import ALIASES, FIELDS, PAYLOAD, WORD, Field, Takes, nearest
from posthouse.core.filters.times import Unreadable, read_ids, read_numbers, read_times
from posthouse.core.filters.tokens import Piece, Token, quoted, tokens
from posthouse.core.filters.values import Filter, Json, Term, Text, Value
from posthouse.core.redaction.names import is_secret_name
from posthouse.errors import InvalidFilter

LONGEST = 4000
MOST_TERMS = 50
MOST_VALUES = 100
LONGEST_VALUE = 512
MOST_STEPS = 20
_COMPARED = re.compile(r"(<=|>=|<|>)(-?\d+(?:\.\d+)?)")


def read_filter(line: str) -> Filter:
    """Parse a line. Raises InvalidFilter with the position of the error."""
    if len(line) > LONGEST:
        raise InvalidFilter(f"a filter is limited to {LONGEST:,} characters", at=LONGEST, to=len(line))
    if "\x00" in line:
        at = line.index("\x00")
        raise InvalidFilter(f"invalid character (at {at})", at=at, to=at + 1)
    found = tokens(line)
    if len(found) > MOST_TERMS:
        at = found[MOST_TERMS].start
        raise InvalidFilter(
            f"a filter is limited to {MOST_TERMS} terms; the limit is exceeded at {at}",
            at=at,
            to=len(line),
        )
    return Filter(tuple(read_term(token) for token in found))


def read_term(token: Token) -> Term:
    if len(token.values) > MOST_VALUES:
        raise _wrong(token.values[MOST_VALUES], f"a term is limited to {MOST_VALUES} values")
    if token.field is None:
        return Term(WORD, tuple(_word(piece) for piece in token.values), token.negated)
    field, path = field_of(token.field)
    values = tuple(_value(field, token.field, piece) for piece in token.values)
    return Term(field.name, values, token.negated, path)


def field_of(piece: Piece) -> tuple[Field, tuple[str, ...]]:
    name, _, rest = piece.text.partition(".")
    name = ALIASES.get(name.lower(), name.lower())
    field = FIELDS.get(name)
    if field is None:
        raise _unknown_field(piece, nearest(name, FIELDS))
    if field.name == PAYLOAD:
        return field, _path(piece, rest)
    if rest or "." in piece.text:
        raise _wrong(piece, f"{field.name} has no parts: write {field.name}:…", field.name)
    return field, ()


def _unknown_field(piece: Piece, near: str | None) -> InvalidFilter:
    advice = f"did you mean {near}?" if near else f"the fields are {', '.join(FIELDS)}"
    return _wrong(piece, f"unknown field {piece.text!r}: {advice}", near)


def _path(piece: Piece, rest: str) -> tuple[str, ...]:
    steps = tuple(rest.split("."))
    if not all(steps) or len(steps) > MOST_STEPS:
        raise _wrong(
            piece, "payload filters need a field name, like payload.video_id:42 or payload.video.id:42"
        )
    if secret := next((step for step in steps if is_secret_name(step)), None):
        raise _wrong(piece, f"the payload field {secret!r} is masked and cannot be filtered")
    return steps


def _word(piece: Piece) -> Text:
    missing = 'write a word, or a field and a value: status:failed, "my video"'
    _check(piece, missing)
    text = piece.text if piece.quoted else piece.text.rstrip("…")
    if not text:
        raise _wrong(piece, missing)
    return Text(text)


def _value(field: Field, name: Piece, piece: Piece) -> Value:
    _check(piece, f"a value is missing after {name.text}: at {piece.start}")
    try:
        return _read(field, piece)
    except Unreadable as error:
        raise _wrong(piece, str(error), error.instead) from None


def _check(piece: Piece, missing: str) -> None:
    if not piece.closed:
        raise _wrong(piece, "the closing quote is missing", quoted(piece.text))
    if not piece.text and not piece.quoted:
        raise _wrong(piece, missing)
    if len(piece.text) > LONGEST_VALUE:
        raise _wrong(piece, f"a value is limited to {LONGEST_VALUE} characters")


def _read(field: Field, piece: Piece) -> Value:
    match field.takes:
        case Takes.TIME:
            return read_times(field.name, piece.text)
        case Takes.NUMBER:
            return read_numbers(field.name, piece.text)
        case Takes.ID:
            return read_ids(piece.text)
        case Takes.CHOICE:
            return _choice(field, piece)
        case Takes.JSON:
            return _json(piece)
        case _:
            return _text(piece)


def _choice(field: Field, piece: Piece) -> Text:
    text = piece.text.lower()
    if text in field.choices:
        return Text(text)
    near = nearest(text, field.choices)
    advice = f"did you mean {near}?" if near else f"choose from {', '.join(field.choices)}"
    raise Unreadable(f"unknown {field.name} {piece.text!r}: {advice}", near)


def _text(piece: Piece) -> Text:
    """An asterisk at the end matches any text, unless it is quoted."""
    if not piece.quoted and piece.text.endswith("*"):
        return Text(piece.text[:-1], open_end=True)
    return Text(piece.text)


def _json(piece: Piece) -> Json:
    if piece.quoted:
        return Json(piece.text, quoted=True)
    if found := _COMPARED.fullmatch(piece.text):
        return Json(found[2], comparison=found[1])
    if piece.text.endswith("*"):
        return Json(piece.text[:-1], open_end=True)
    return Json(piece.text)


def _wrong(piece: Piece, message: str, instead: str | None = None) -> InvalidFilter:
    where = "" if f"at {piece.start}" in message else f" (at {piece.start})"
    return InvalidFilter(message + where, at=piece.start, to=piece.end, instead=instead)
