"""What is asked for at a place in a line: a field's name or a value, and what else the line says."""

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
    """``typed`` stands from ``start`` to ``end`` and is to be completed: a ``name`` of a field, with that of
    what is in a payload, or a ``value`` of ``field``. ``others``: the terms that are right, without this one.
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
    """With the colon behind it, which what is put in its place brings along."""
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
