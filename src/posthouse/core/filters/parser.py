"""The filter language: parse a filter, format it, and find what can be completed in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from posthouse.core.filters.values import (
    ALIASES,
    FIELDS,
    PAYLOAD,
    WORD,
    Field,
    Filter,
    Json,
    Takes,
    Term,
    Text,
    Unreadable,
    Value,
    nearest,
    read_ids,
    read_numbers,
    read_times,
)
from posthouse.core.redaction.patterns import is_secret_name
from posthouse.errors import InvalidFilter

_FIELD = re.compile(r'[^\s:",]+(?=:)')
_BARE = re.compile(r"[^\s,]*")
_SPACE = re.compile(r"\s*")
_NEEDS_QUOTES = re.compile(r'[\s,"\\]')


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the line. ``start`` and ``end`` include its quotes; ``closed``: both quotes are present."""

    text: str
    start: int
    end: int
    quoted: bool = False
    closed: bool = True


@dataclass(frozen=True, slots=True)
class FilterToken:
    start: int
    end: int
    negated: bool
    field: Piece | None
    values: tuple[Piece, ...]


def tokens(line: str) -> list[FilterToken]:
    found: list[FilterToken] = []
    at = _after_space(line, 0)
    while at < len(line):
        found.append(_token(line, at))
        at = _after_space(line, found[-1].end)
    return found


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written(text: str, *, plain: bool = True) -> str:
    """Format a text as a value, quoted if it would otherwise be parsed as something else."""
    if plain and text and not _NEEDS_QUOTES.search(text) and not text.endswith(("*", "…")):
        return text
    return quoted(text)


def _after_space(line: str, at: int) -> int:
    found = _SPACE.match(line, at)
    return found.end() if found else at


def _token(line: str, start: int) -> FilterToken:
    negated = line[start] == "-"
    at = start + negated
    named = _FIELD.match(line, at)
    field = None
    if named is not None:
        field = Piece(named.group(), at, named.end())
        at = named.end() + 1
    values = [_piece(line, at)]
    while values[-1].end < len(line) and line[values[-1].end] == ",":
        values.append(_piece(line, values[-1].end + 1))
    return FilterToken(start, values[-1].end, negated, field, tuple(values))


def _piece(line: str, start: int) -> Piece:
    if start < len(line) and line[start] == '"':
        return _quoted_piece(line, start)
    found = _BARE.match(line, start)
    end = found.end() if found else start
    return Piece(line[start:end], start, end)


def _quoted_piece(line: str, start: int) -> Piece:
    text: list[str] = []
    at = start + 1
    while at < len(line) and line[at] != '"':
        at += line[at] == "\\" and at + 1 < len(line)
        text.append(line[at])
        at += 1
    closed = at < len(line)
    return Piece("".join(text), start, at + closed, quoted=True, closed=closed)


MAX_LENGTH = 4000
MAX_TERMS = 50
MAX_VALUES = 100
MAX_VALUE_CHARS = 512
MAX_STEPS = 20
_COMPARED = re.compile(r"(<=|>=|<|>)(-?\d+(?:\.\d+)?)")


def parse_filter(line: str) -> Filter:
    """Parse a line. Raises InvalidFilter with the position of the error."""
    if len(line) > MAX_LENGTH:
        raise InvalidFilter(f"a filter is limited to {MAX_LENGTH:,} characters", at=MAX_LENGTH, to=len(line))
    if "\x00" in line:
        at = line.index("\x00")
        raise InvalidFilter(f"invalid character (at {at})", at=at, to=at + 1)
    found = tokens(line)
    if len(found) > MAX_TERMS:
        at = found[MAX_TERMS].start
        raise InvalidFilter(
            f"a filter is limited to {MAX_TERMS} terms; the limit is exceeded at {at}",
            at=at,
            to=len(line),
        )
    return Filter(tuple(parse_term(token) for token in found))


def parse_term(token: FilterToken) -> Term:
    if len(token.values) > MAX_VALUES:
        raise _wrong(token.values[MAX_VALUES], f"a term is limited to {MAX_VALUES} values")
    if token.field is None:
        return Term(WORD, tuple(_parse_word(piece) for piece in token.values), token.negated)
    field, path = field_of(token.field)
    values = tuple(_parse_value(field, token.field, piece) for piece in token.values)
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
    if not all(steps) or len(steps) > MAX_STEPS:
        raise _wrong(
            piece, "payload filters need a field name, like payload.video_id:42 or payload.video.id:42"
        )
    if secret := next((step for step in steps if is_secret_name(step)), None):
        raise _wrong(piece, f"the payload field {secret!r} is masked and cannot be filtered")
    return steps


def _parse_word(piece: Piece) -> Text:
    missing = 'write a word, or a field and a value: status:failed, "my video"'
    _check(piece, missing)
    text = piece.text if piece.quoted else piece.text.rstrip("…")
    if not text:
        raise _wrong(piece, missing)
    return Text(text)


def _parse_value(field: Field, name: Piece, piece: Piece) -> Value:
    _check(piece, f"a value is missing after {name.text}: at {piece.start}")
    try:
        return _read(field, piece)
    except Unreadable as error:
        raise _wrong(piece, str(error), error.suggestion) from None


def _check(piece: Piece, missing: str) -> None:
    if not piece.closed:
        raise _wrong(piece, "the closing quote is missing", quoted(piece.text))
    if not piece.text and not piece.quoted:
        raise _wrong(piece, missing)
    if len(piece.text) > MAX_VALUE_CHARS:
        raise _wrong(piece, f"a value is limited to {MAX_VALUE_CHARS} characters")


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
            return _parse_json(piece)
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
    """Return the text of a value. An asterisk at its end matches any text, unless it is quoted."""
    if not piece.quoted and piece.text.endswith("*"):
        return Text(piece.text[:-1], open_end=True)
    return Text(piece.text)


def _parse_json(piece: Piece) -> Json:
    if piece.quoted:
        return Json(piece.text, quoted=True)
    if found := _COMPARED.fullmatch(piece.text):
        return Json(found[2], comparison=found[1])
    if piece.text.endswith("*"):
        return Json(piece.text[:-1], open_end=True)
    return Json(piece.text)


def _wrong(piece: Piece, message: str, suggestion: str | None = None) -> InvalidFilter:
    where = "" if f"at {piece.start}" in message else f" (at {piece.start})"
    return InvalidFilter(message + where, at=piece.start, to=piece.end, suggestion=suggestion)


def format_filter(wanted: Filter) -> str:
    """Return the line. Parsing it gives the same filter."""
    return " ".join(_format_term(term) for term in wanted.terms)


def _format_term(term: Term) -> str:
    sign = "-" if term.negated else ""
    if term.field == WORD:
        return sign + ",".join(_format_word(value) for value in term.values)
    name = ".".join((PAYLOAD, *term.path)) if term.field == PAYLOAD else term.field
    return f"{sign}{name}:{','.join(_format_value(value) for value in term.values)}"


def _format_word(value: Value) -> str:
    text = value.text if isinstance(value, Text) else ""
    return written(text, plain=":" not in text and not text.startswith("-"))


def _format_value(value: Value) -> str:
    match value:
        case Text(text, open_end=True):
            return f"{text}*"
        case Text(text):
            return written(text)
        case Json():
            return _format_json(value)
        case _:
            return value.written


def _format_json(value: Json) -> str:
    if value.quoted:
        return quoted(value.text)
    comparison = "" if value.comparison == "==" else value.comparison
    return f"{comparison}{value.text}{'*' if value.open_end else ''}"


@dataclass(frozen=True, slots=True)
class CompletionTarget:
    """A request for completion of ``typed``, which is in the line from ``start`` to ``end``.

    ``typed`` is the ``name`` of a field (including payload fields), or a ``value`` of ``field``. ``others``
    are the valid terms of the line except this one.
    """

    what: Literal["name", "value"]
    start: int
    end: int
    typed: str
    others: Filter
    field: Field | None = None
    path: tuple[str, ...] = ()


def completion_at(line: str, at: int | None = None) -> CompletionTarget:
    line = line[:MAX_LENGTH]
    at = len(line) if at is None else max(0, min(at, len(line)))
    found = tokens(line)
    here = next((token for token in found if token.start <= at <= token.end), None)
    others = Filter(tuple(term for token in found if token is not here and (term := _term_or_none(token))))
    if here is None:
        return CompletionTarget("name", at, at, "", others)
    if here.field is None:
        start = min(here.start + here.negated, at)
        piece = here.values[0]
        return CompletionTarget("name", start, piece.end, _before(line, start, at), others)
    if at <= here.field.end:
        return _name(line, at, here.field, others)
    return _value_target(at, here, here.field, others)


def _name(line: str, at: int, name: Piece, others: Filter) -> CompletionTarget:
    """Return a target that includes the colon, because the completion inserts a colon too."""
    start = min(name.start, at)
    return CompletionTarget("name", start, name.end + 1, _before(line, start, at), others)


def _value_target(at: int, token: FilterToken, name: Piece, others: Filter) -> CompletionTarget:
    piece = next((piece for piece in token.values if piece.start <= at <= piece.end), token.values[-1])
    first, _, rest = name.text.partition(".")
    field = FIELDS.get(ALIASES.get(first.lower(), first.lower()))
    path = tuple(rest.split(".")) if field is not None and field.name == PAYLOAD else ()
    typed = piece.text if piece.quoted else piece.text[: at - piece.start]
    return CompletionTarget("value", piece.start, piece.end, typed, others, field, path)


def _before(line: str, start: int, at: int) -> str:
    return line[start:at]


def _term_or_none(token: FilterToken) -> Term | None:
    try:
        return parse_term(token)
    except InvalidFilter:
        return None
