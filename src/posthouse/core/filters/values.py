"""The fields of filters, and the values that they take: times, numbers, ids, JSON and texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from posthouse.core.duration import seconds
from posthouse.core.request import PRIORITY_NAMES
from posthouse.core.states import Status
from posthouse.errors import ConfigurationError

SOURCES = ("manual", "event", "schedule", "system")
PAYLOAD = "payload"
WORD = "word"
"""The type of a word without a field: the prefix of an id, a subject or a kind."""


class Takes(StrEnum):
    TEXT = "text"
    PIECE = "piece of a text"
    CHOICE = "choice"
    NUMBER = "number"
    TIME = "time"
    ID = "id"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    takes: Takes
    meaning: str
    choices: tuple[str, ...] = ()


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("status", Takes.CHOICE, "job status", tuple(status.value for status in Status)),
        Field("kind", Takes.TEXT, "job kind"),
        Field("queue", Takes.TEXT, "queue name"),
        Field("source", Takes.CHOICE, "how the job was created", SOURCES),
        Field("subject", Takes.TEXT, "subject, as set by the caller"),
        Field("correlation", Takes.TEXT, "correlation id, shared by the jobs of a pipeline"),
        Field("worker", Takes.TEXT, "the current or last worker: name, host, or prefix of its id"),
        Field("tenant", Takes.TEXT, "tenant"),
        Field("id", Takes.ID, "job id, or a prefix of it"),
        Field("priority", Takes.NUMBER, "priority: a number (lower first), or urgent, high, normal, low"),
        Field("attempts", Takes.NUMBER, "number of attempts"),
        Field("created", Takes.TIME, "time of the enqueue: <2h (younger), >2h (older), a day, or a range"),
        Field("finished", Takes.TIME, "time of the end: <2h (younger), >2h (older), a day, or a range"),
        Field("error", Takes.PIECE, "text in the last error; never matches jobs that succeeded"),
        Field("fingerprint", Takes.TEXT, "fingerprint of the failure group, or a prefix of it"),
        Field(PAYLOAD, Takes.JSON, "a payload field: payload.video_id:42"),
    )
}
ALIASES = {
    "definition_key": "kind",
    "correlation_id": "correlation",
    "tenant_id": "tenant",
    "worker_id": "worker",
    "attempt_count": "attempts",
    "queued_at": "created",
    "created_at": "created",
    "finished_at": "finished",
    "last_error": "error",
}
"""Other names of the fields."""


def nearest(text: str, names: tuple[str, ...] | dict[str, Field]) -> str | None:
    found = get_close_matches(text.lower(), names, n=1, cutoff=0.5)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Text:
    """A text. With ``open_end``, the text is a prefix."""

    text: str
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """A range from ``low`` (included) to ``below`` (excluded); ``written`` is its text."""

    low: float | None
    below: float | None
    written: str


@dataclass(frozen=True, slots=True)
class IdRange:
    """A range of ids: those that begin with these digits, at most 32."""

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
    """A time range.

    Ages are seconds before the query, from ``oldest`` to ``youngest`` (excluded); moments are absolute, from
    ``since`` to ``until`` (excluded).
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
    """A payload value with the possible meanings of its text: 42 is a number and a string."""

    text: str
    open_end: bool = False
    quoted: bool = False
    comparison: str = "=="


Value: TypeAlias = Text | Numbers | IdRange | Times | Json


@dataclass(frozen=True, slots=True)
class Term:
    """A term, which selects jobs with one of its values; with ``negated``, jobs with none of them.

    ``path`` is the path within the payload.
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
    """A filter, which selects jobs that match all of its terms."""

    terms: tuple[Term, ...] = ()

    def __add__(self, other: Filter) -> Filter:
        return Filter(self.terms + other.terms)

    @property
    def words(self) -> list[str]:
        """The words without a field."""
        return [value.text for term in self.terms if term.field == WORD for value in term.texts]

    def asks_for(self, field: str, text: str) -> bool:
        """Return whether a term that is not negated has this value."""
        terms = (term for term in self.terms if term.field == field and not term.negated)
        return any(value.text == text for term in terms for value in term.texts)


def _before(now: datetime, seconds: float) -> datetime:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:  # older than a datetime can represent
        return datetime.min.replace(year=2, tzinfo=now.tzinfo)


_COMPARED = re.compile(r"(<=|>=|<|>)(.*)", re.DOTALL)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_AGE = re.compile(r"[\d.]+\s*(ms|s|m|h|d|w).*", re.DOTALL)
_WHOLE = re.compile(r"-?\d{1,10}")
_HEX = re.compile(r"[0-9a-f]+")
_DIGITS = 32
_LAST_YEAR = 9000


class Unreadable(ValueError):
    """A value could not be parsed. ``suggestion`` is the suggested correction, if there is one."""

    def __init__(self, advice: str, suggestion: str | None = None) -> None:
        super().__init__(advice)
        self.suggestion = suggestion


def read_times(field: str, text: str) -> Times:
    """Parse times: ``<2h`` is younger, ``>2h`` older; ``>2026-11-01`` is later, ``<2026-11-01`` earlier."""
    if found := _COMPARED.fullmatch(text):
        return _compared(field, text, *found.groups())
    if ".." in text:
        return _range(field, text)
    if _AGE.fullmatch(text):
        raise Unreadable(
            f"write {field}:<{text} for jobs younger than that, {field}:>{text} for older ones",
            f"<{text}",
        )
    since, until = _moment(field, text)
    return Times(text, since=since, until=until)


def _compared(field: str, text: str, comparison: str, operand: str) -> Times:
    younger = comparison.startswith("<")
    if _AGE.fullmatch(operand):
        age = _age(field, operand)
        return Times(text, oldest=age) if younger else Times(text, youngest=age)
    since, until = _moment(field, operand)
    if comparison == "<":
        return Times(text, until=since)
    if comparison == "<=":
        return Times(text, until=until)
    return Times(text, since=until if comparison == ">" else since)


def _range(field: str, text: str) -> Times:
    """Parse a range. Days are included entirely; two ages may be in either order."""
    left, _, right = text.partition("..")
    if not left and not right:
        raise Unreadable(f"write {field}:2026-11-01..2026-11-02, or omit one end of the range")
    if _AGE.fullmatch(left or right):
        ages = sorted(_age(field, part) for part in (left, right) if part)
        if len(ages) == 1:
            return Times(text, youngest=ages[0]) if not right else Times(text, oldest=ages[0])
        return Times(text, oldest=ages[1], youngest=ages[0])
    since = _moment(field, left)[0] if left else None
    until = _moment(field, right)[1] if right else None
    if since and until and until <= since:
        raise Unreadable("the range ends before it begins", f"{right}..{left}")
    return Times(text, since=since, until=until)


def _age(field: str, text: str) -> float:
    try:
        return seconds(text)
    except ConfigurationError:
        raise _not_a_time(field, text) from None


def _moment(field: str, text: str) -> tuple[datetime, datetime]:
    """Return the start and end of a point in time: a day ends 24 hours later, a moment at once."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _not_a_time(field, text) from None
    if not 1 < moment.year < _LAST_YEAR:
        raise Unreadable(f"a time must be between the years 2 and {_LAST_YEAR}")
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if _DAY.fullmatch(text):
        return moment, moment + timedelta(days=1)
    return moment, moment


def _not_a_time(field: str, text: str) -> Unreadable:
    return Unreadable(
        f"{text!r} is not a time: write {field}:<2h, {field}:>1d, {field}:2026-11-01 or "
        f"{field}:2026-11-01..2026-11-02"
    )


def read_numbers(field: str, text: str) -> Numbers:
    named = PRIORITY_NAMES if field == "priority" else {}

    def number(part: str) -> int:
        if part in named:
            return named[part]
        if not _WHOLE.fullmatch(part):
            raise Unreadable(f"{part!r} is not a number: write {field}:3, {field}:>1 or {field}:2..5")
        return int(part)

    return _numbers(text, number)


def _numbers(text: str, number: Callable[[str], int]) -> Numbers:
    if found := _COMPARED.fullmatch(text):
        comparison, operand = found.groups()
        limit = number(operand)
        if comparison.startswith("<"):
            return Numbers(None, limit + (comparison == "<="), text)
        return Numbers(limit + (comparison == ">"), None, text)
    if ".." in text:
        left, _, right = text.partition("..")
        low = number(left) if left else None
        below = number(right) + 1 if right or not left else None
        if low is not None and below is not None and below <= low:
            raise Unreadable("the range ends before it begins", f"{right}..{left}")
        return Numbers(low, below, text)
    exact = number(text)
    return Numbers(exact, exact + 1, text)


def read_ids(text: str) -> IdRange:
    digits = digits_of(text)
    if digits is None:
        raise Unreadable(f"{text!r} is not a job id or the start of one; job ids look like 0192f3a4-…")
    return IdRange(digits, text.rstrip("*…"))


def digits_of(text: str) -> str | None:
    """Return the digits of an id or of a prefix, or None if the text is neither."""
    bare = text.rstrip("*…").lower()
    digits = bare.replace("-", "")
    if not 0 < len(digits) <= _DIGITS or not _HEX.fullmatch(digits):
        return None
    dashed = str(UUID(int=int(digits.ljust(_DIGITS, "0"), 16)))
    return digits if bare in {digits, dashed[: len(bare)]} else None
