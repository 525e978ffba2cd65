"""Split a line into terms with their positions. Accepts incomplete lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
class Token:
    start: int
    end: int
    negated: bool
    field: Piece | None
    values: tuple[Piece, ...]


def tokens(line: str) -> list[Token]:
    found: list[Token] = []
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


def _token(line: str, start: int) -> Token:
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
    return Token(start, values[-1].end, negated, field, tuple(values))


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
