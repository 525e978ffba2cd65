"""What a filter's terms are made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from posthouse.core.filters.fields import WORD


@dataclass(frozen=True, slots=True)
class Text:
    """A text; with ``open_end`` the beginning of one."""

    text: str
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """From ``low`` on, below ``below``; ``written`` as people do."""

    low: float | None
    below: float | None
    written: str


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids that begin with these digits, of which there are up to 32."""

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
    """A span of time. Ages are seconds before whenever the question is asked: from ``oldest`` up to, and
    without, ``youngest``. Moments are what they are: from ``since`` on, before ``until``.
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
    """A value in a payload, as which the text may be meant: 42 is a number and a text."""

    text: str
    open_end: bool = False
    quoted: bool = False
    comparison: str = "=="


Value: TypeAlias = Text | Numbers | Ids | Times | Json


@dataclass(frozen=True, slots=True)
class Term:
    """Jobs with one of these values; with ``negated`` those with none of them. ``path``: within a payload."""

    field: str
    values: tuple[Value, ...]
    negated: bool = False
    path: tuple[str, ...] = ()

    @property
    def texts(self) -> list[Text]:
        return [value for value in self.values if isinstance(value, Text)]


@dataclass(frozen=True, slots=True)
class Filter:
    """Jobs that fit all of these."""

    terms: tuple[Term, ...] = ()

    def __add__(self, other: Filter) -> Filter:
        return Filter(self.terms + other.terms)

    @property
    def words(self) -> list[str]:
        """Those that stand without a field."""
        return [value.text for term in self.terms if term.field == WORD for value in term.texts]

    def asks_for(self, field: str, text: str) -> bool:
        """Whether some term names this value as one to have."""
        terms = (term for term in self.terms if term.field == field and not term.negated)
        return any(value.text == text for term in terms for value in term.texts)


def _before(now: datetime, seconds: float) -> datetime:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:  # as long ago as can be said
        return datetime.min.replace(year=2, tzinfo=now.tzinfo)
