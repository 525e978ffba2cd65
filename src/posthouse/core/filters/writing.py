"""Format a filter as a line."""

from __future__ import annotations

from posthouse.core.filters.fields import PAYLOAD, WORD
from posthouse.core.filters.tokens import quoted, written
from posthouse.core.filters.values import Filter, Json, Term, Text, Value


def line_of(wanted: Filter) -> str:
    """Return the line. Parsing it gives the same filter."""
    return " ".join(_term(term) for term in wanted.terms)


def _term(term: Term) -> str:
    sign = "-" if term.negated else ""
    if term.field == WORD:
        return sign + ",".join(_word(value) for value in term.values)
    name = ".".join((PAYLOAD, *term.path)) if term.field == PAYLOAD else term.field
    return f"{sign}{name}:{','.join(_value(value) for value in term.values)}"


def _word(value: Value) -> str:
    text = value.text if isinstance(value, Text) else ""
    return written(text, plain=":" not in text and not text.startswith("-"))


def _value(value: Value) -> str:
    match value:
        case Text(text, open_end=True):
            return f"{text}*"
        case Text(text):
            return written(text)
        case Json():
            return _json(value)
        case _:
            return value.written


def _json(value: Json) -> str:
    if value.quoted:
        return quoted(value.text)
    comparison = "" if value.comparison == "==" else value.comparison
    return f"{comparison}{value.text}{'*' if value.open_end else ''}"
