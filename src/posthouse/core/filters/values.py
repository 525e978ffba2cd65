"""The terms and values of a filter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from posthouse.core.filters.fields import WORD


@dataclass(frozen=True, slots=True)
class Text:
    """A text; with ``open_end`` a prefix."""

    text: str
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """A range from ``low`` (included) to ``below`` (excluded); ``written`` is its text."""

    low: float | None
    below: float | None
    written: str


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids that begin with these digits, at most 32."""

    digits: str
    written: str

    @property
    def low(self) -> int:
        return int(self.digits.ljust(32, "0"), 16)

    @property
    def high(self) -> int:
        return int(self.digits.ljust(32, "f"), 16)


@dataclass(frozen=True, slots=True)
class Times:
    """A time range. Ages are seconds before the query, from ``oldest`` to ``youngest`` (excluded); moments
    are absolute, from ``since`` to ``until`` (excluded).
    """

    written: str
    since: datetime | None = None
    until: datetime | None = None
    oldest: float | None = None
    youngest: float | None = None

    def bounds(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        since = self.since if self.oldest is None else _before(now, self.oldest)
        until = self.until if self.youngest is None else _before(now, self.youngest)
        return since, until


@dataclass(frozen=True, slots=True)
class Json:
    """A payload value with the possible readings of its text: 42 is a number and a string."""

    text: str
    open_end: bool = False
    quoted: bool = False
    comparison: str = "=="


Value: TypeAlias = Text | Numbers | Ids | Times | Json


@dataclass(frozen=True, slots=True)
class Term:
    """Jobs with one of these values; with ``negated``, jobs with none of them. ``path``:
    within the payload.
    """

    field: str
    values: tuple[Value, ...]
    negated: bool = False
    path: tuple[str, ...] = ()

    @property
    def texts(self) -> list[Text]:
        return [value for value in self.values if isinstance(value, Text)]


@dataclass(frozen=True, slots=True)
class Filter:
    """Jobs that match all terms."""

    terms: tuple[Term, ...] = ()

    def __add__(self, other: Filter) -> Filter:
        return Filter(self.terms + other.terms)

    @property
    def words(self) -> list[str]:
        """The words without a field."""
        return [value.text for term in self.terms if term.field == WORD for value in term.texts]

    def asks_for(self, field: str, text: str) -> bool:
        """Whether a term that is not negated has this value."""
        terms = (term for term in self.terms if term.field == field and not term.negated)
        return any(value.text == text for term in terms for value in term.texts)


def _before(now: datetime, seconds: float) -> datetime:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:  # older than a datetime can represent
        return datetime.min.replace(year=2, tzinfo=now.tzinfo)
