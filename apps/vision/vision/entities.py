"""Normalization of texts, extraction of entities, and parsing of search queries."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

EntityType = Literal["mention", "hashtag", "url", "emoji", "number"]

_MONEY = "$€£¥₹"
_PATTERNS: dict[EntityType, re.Pattern[str]] = {
    # Order matters: matched text is removed before the next pattern, so that a URL yields no numbers.
    "url": re.compile(r"(?:https?://|www\.)[^\s<>\"']+[^\s<>\"'.,;:!?)\]}]", re.IGNORECASE),
    "mention": re.compile(r"(?<![\w.])@[a-zA-Z0-9_]+"),
    "hashtag": re.compile(r"(?<!\w)#[a-zA-Z0-9_]+"),
    "emoji": re.compile(
        "[\U0001f1e6-\U0001f1ff]{2}"  # flags
        "|[\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001faff]\ufe0f?[\U0001f3fb-\U0001f3ff]?"
        "(?:\u200d[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f?)*"
    ),
    "number": re.compile(
        rf"(?<![\w.,])(?:[{_MONEY}]\s?)?"
        r"(?:\+\d{1,3}(?:[ -]\d{2,})+|\d+(?:[ -]\d{3,})+|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?)"
        rf"(?:\s?(?:[{_MONEY}%°]|(?:km|kg|cm|mm|kb|mb|gb|tb|fps|hz|px|ms|m|g|k|s|h|x)\b))?(?!\w)",
        re.IGNORECASE,
    ),
}


class Entity(NamedTuple):
    type: EntityType
    value: str
    normalized: str


class EntityColumns(NamedTuple):
    """Entities as columns, with the ids of their segments."""

    segments: list[int]
    types: list[str]
    values: list[str]
    normalized: list[str]


class Query(NamedTuple):
    """A parsed query: ``words`` to find in texts, and ``terms`` (entities) as stored in the index."""

    words: str
    terms: list[str]


def normalize(text: str) -> str:
    return " ".join(text.split()).lower()


def text_hash(normalized: str) -> str:
    return hashlib.sha256(normalized.encode()).hexdigest()


def entities(text: str) -> list[Entity]:
    """Return the distinct entities of a text."""
    found: dict[tuple[EntityType, str], Entity] = {}
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            entity = Entity(kind, match[0], _normalized(kind, match[0]))
            found.setdefault((kind, entity.normalized), entity)
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return list(found.values())


def extract_entities(texts: Iterable[tuple[int, str]]) -> EntityColumns:
    """Return the entities of segments."""
    found = [(segment, entity) for segment, text in texts for entity in entities(text)]
    return EntityColumns(
        [segment for segment, _ in found],
        [entity.type for _, entity in found],
        [entity.value for _, entity in found],
        [entity.normalized for _, entity in found],
    )


def _normalized(kind: EntityType, value: str) -> str:
    match kind:
        case "mention" | "hashtag":
            return value[1:].lower()
        case "url":
            return re.sub(r"^(https?://)?(www\.)?", "", value.lower()).rstrip("/")
        case "number":
            return _plain_number(value)
        case "emoji":
            return value


def _plain_number(value: str) -> str:
    """Normalize a number: 1,299.00 becomes 1299; a telephone number becomes its digits."""
    bare = re.sub(r"[^\d.,]", "", value)
    bare = re.sub(r",(?=\d{3}(?:\D|$))", "", bare).replace(",", ".")
    return re.sub(r"\.0*$|(\.\d*?)0+$", r"\1", bare)


def parse_query(text: str) -> Query:
    """Parse a query. ``@alice #sale https://… 4711`` are entities; the rest are words or prefixes."""
    found = [entity for entity in entities(text) if entity.type != "number" or _is_bare(entity.value)]
    for entity in found:
        text = text.replace(entity.value, " ")
    return Query(" ".join(text.split()), [f"{entity.type}:{entity.normalized}" for entity in found])


def _is_bare(number: str) -> bool:
    """Return whether the number has no unit: in a query, 12 km means two words."""
    return not re.search(r"[a-z]", number, re.IGNORECASE)
