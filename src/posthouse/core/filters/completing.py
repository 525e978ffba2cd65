"""Find what can be completed at a position in a line: a field name or a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from posthouse.core.filters.fields import ALIASES, FIELDS, PAYLOAD, Field
from posthouse.core.filters.reading import LONGEST, read_term
from posthouse.core.filters.tokens import Piece, Token, tokens
from posthouse.core.filters.values import Filter, Term
from posthouse.errors import InvalidFilter


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for completion.

    ``typed``, from ``start`` to ``end``, is to be completed: the ``name`` of a field (including payload
    fields), or a ``value`` of ``field``. ``others`` are the valid terms of the line except this one.
    """

    what: Literal["name", "value"]
    start: int
    end: int
    typed: str
    others: Filter
    field: Field | None = None
    path: tuple[str, ...] = ()


def asked_at(line: str, at: int | None = None) -> Asked:
    line = line[:LONGEST]
    at = len(line) if at is None else max(0, min(at, len(line)))
    found = tokens(line)
    here = next((token for token in found if token.start <= at <= token.end), None)
    others = Filter(tuple(term for token in found if token is not here and (term := _term(token))))
    if here is None:
        return Asked("name", at, at, "", others)
    if here.field is None:
        start = min(here.start + here.negated, at)
        piece = here.values[0]
        return Asked("name", start, piece.end, _before(line, start, at), others)
    if at <= here.field.end:
        return _name(line, at, here.field, others)
    return _value(at, here, here.field, others)


def _name(line: str, at: int, name: Piece, others: Filter) -> Asked:
    """Include the colon, because the completion brings its own."""
    start = min(name.start, at)
    return Asked("name", start, name.end + 1, _before(line, start, at), others)


def _value(at: int, token: Token, name: Piece, others: Filter) -> Asked:
    piece = next((piece for piece in token.values if piece.start <= at <= piece.end), token.values[-1])
    first, _, rest = name.text.partition(".")
    field = FIELDS.get(ALIASES.get(first.lower(), first.lower()))
    path = tuple(rest.split(".")) if field is not None and field.name == PAYLOAD else ()
    typed = piece.text if piece.quoted else piece.text[: at - piece.start]
    return Asked("value", piece.start, piece.end, typed, others, field, path)


def _before(line: str, start: int, at: int) -> str:
    return line[start:at]


def _term(token: Token) -> Term | None:
    try:
        return read_term(token)
    except InvalidFilter:
        return None
