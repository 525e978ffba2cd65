"""What a text is made of: its normal form, the entities in it, and the parts of a query."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

EntityType = Literal["mention", "hashtag", "url", "emoji", "number"]

_MONEY = "$€£¥₹"
_PATTERNS: dict[EntityType, re.Pattern[str]] = {
    # In this order: what one has found is no longer there for the next, so that a URL has no numbers.
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


class Mentioned(NamedTuple):
    """Entities in columns, with the segments that they are in."""

    segments: list[int]
    types: list[str]
    values: list[str]
    normalized: list[str]


class Query(NamedTuple):
    """``words`` is what to look for in texts, ``terms`` are entities as the index has them."""

    words: str
    terms: list[str]


def normalize(text: str) -> str:
    return " ".join(text.split()).lower()


def text_hash(normalized: str) -> str:
    return hashlib.sha256(normalized.encode()).hexdigest()


def entities(text: str) -> list[Entity]:
    """Those in a text, each once."""
    found: dict[tuple[EntityType, str], Entity] = {}
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            entity = Entity(kind, match[0], _normalized(kind, match[0]))
            found.setdefault((kind, entity.normalized), entity)
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return list(found.values())


def mentioned(texts: Iterable[tuple[int, str]]) -> Mentioned:
    """Those in the texts of segments."""
    found = [(segment, entity) for segment, text in texts for entity in entities(text)]
    return Mentioned(
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
    """1,299.00 and 1299 are one number; of a telephone number the digits remain."""
    bare = re.sub(r"[^\d.,]", "", value)
    bare = re.sub(r",(?=\d{3}(?:\D|$))", "", bare).replace(",", ".")
    return re.sub(r"\.0*$|(\.\d*?)0+$", r"\1", bare)


def parse_query(text: str) -> Query:
    """``@somebody #sale https://… 4711`` are entities; all else are words, or their beginnings."""
    found = [entity for entity in entities(text) if entity.type != "number" or _is_bare(entity.value)]
    for entity in found:
        text = text.replace(entity.value, " ")
    return Query(" ".join(text.split()), [f"{entity.type}:{entity.normalized}" for entity in found])


def _is_bare(number: str) -> bool:
    """12 km is a number with a word to some and two words to others: a query means the words."""
    return not re.search(r"[a-z]", number, re.IGNORECASE)
