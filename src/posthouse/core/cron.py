"""Parse the five fields of a cron expression: days, and minutes of a day. Pure calendar, no time zone.

Besides numbers, names, ranges, steps and lists: ``L`` is the last day of the month, ``FRI#2`` the second
Friday, ``FRIL`` the last Friday.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from posthouse.errors import InvalidSchedule

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
YEARS_AHEAD = 41
"""A 29 February on a given weekday occurs within 40 years; an expression without a match by then has none."""

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_NTH = re.compile(r"([A-Z]+|\d)#(\d+)\Z")
_LAST = re.compile(r"([A-Z]{3}|\d)L\Z")
_HOURS = 24
_MOST_WEEKS = 5
_MOST_DIGITS = 9


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: dict[str, int]

    @property
    def takes(self) -> str:
        return f"{self.low} to {self.high}" + (f" or {'|'.join(self.names)}" if self.names else "")


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}),
)
_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY = _FIELDS


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed cron expression.

    ``minutes`` count from midnight; weekdays count from Sunday = 0; in ``nth``, 0 means the last of the
    month. ``any_hour``: the hour field is ``*``. ``wild``: that, or the minute field begins with a star.
    """

    minutes: tuple[int, ...]
    months: frozenset[int]
    days: frozenset[int]
    last_day: bool
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]
    either: bool
    any_hour: bool
    wild: bool

    @classmethod
    def parse(cls, text: str) -> Cron:
        fields = ALIASES.get(text.strip().lower(), text).upper().split()
        if len(fields) != len(_FIELDS):
            raise InvalidSchedule(f"{text!r}: {_what_instead(text, len(fields))}")
        try:
            cron = cls._of(*fields)
        except InvalidSchedule as error:
            raise InvalidSchedule(f"{text!r}: {error}") from None
        if next(cron.days_from(date(2000, 1, 1)), None) is None:
            raise InvalidSchedule(f"{text!r} never matches: none of its months has that day")
        return cron

    @classmethod
    def _of(cls, minute: str, hour: str, day: str, month: str, weekday: str) -> Cron:
        minutes, hours = _numbers(_MINUTE, minute), _numbers(_HOUR, hour)
        day_items = day.split(",")
        last_day = "L" in day_items
        weekday_items = weekday.split(",")
        nth = {item: found for item in weekday_items if (found := _nth_weekday(item))}
        plain_days = [item for item in day_items if item != "L"]
        plain_weekdays = [item for item in weekday_items if item not in nth]
        return cls(
            minutes=tuple(60 * h + m for h in sorted(hours) for m in sorted(minutes)),
            months=_numbers(_MONTH, month),
            days=_numbers(_DAY, ",".join(plain_days)) if plain_days else frozenset(),
            last_day=last_day,
            weekdays=frozenset(n % 7 for n in _numbers(_WEEKDAY, ",".join(plain_weekdays)))
            if plain_weekdays
            else frozenset(),
            nth=frozenset(nth.values()),
            either=not day.startswith("*") and not weekday.startswith("*"),
            any_hour=len(hours) == _HOURS,
            wild=len(hours) == _HOURS or minute.startswith("*"),
        )

    def on(self, day: date) -> bool:
        """Whether the expression matches on this day."""
        if day.month not in self.months:
            return False
        length = monthrange(day.year, day.month)[1]
        in_month = day.day in self.days or (self.last_day and day.day == length)
        weekday = day.isoweekday() % 7
        in_week = (
            weekday in self.weekdays
            or (weekday, (day.day + 6) // 7) in self.nth
            or (day.day + 7 > length and (weekday, 0) in self.nth)
        )
        return (in_month or in_week) if self.either else (in_month and in_week)

    def days_from(self, first: date) -> Iterator[date]:
        """Yield the matching days from this day on."""
        year, month = first.year, first.month
        found = year
        while year <= min(found + YEARS_AHEAD, date.max.year):
            if month in self.months:
                for number in range(1, monthrange(year, month)[1] + 1):
                    day = date(year, month, number)
                    if day >= first and self.on(day):
                        found = year
                        yield day
            year, month = (year, month + 1) if month < len(_MONTHS) else (year + 1, 1)


def _what_instead(text: str, count: int) -> str:
    if text.strip().startswith("@"):
        return f"unknown name; the names are {', '.join(ALIASES)} and @every 90s"
    if count == len(_FIELDS) + 1:
        return "cron has five fields and no seconds; for intervals below a minute write: every 30s"
    names = ", ".join(field.name for field in _FIELDS)
    return f"cron has five fields ({names}), not {count}; or write: every 15m"


def _numbers(field: _Field, text: str) -> frozenset[int]:
    found: set[int] = set()
    for item in text.split(","):
        found.update(_item(field, item))
    return frozenset(found)


def _item(field: _Field, item: str) -> range:
    base, slash, step_text = item.partition("/")
    low, dash, high = base.partition("-")
    if base == "*":
        first, last = field.low, 6 if field is _WEEKDAY else field.high
    elif dash:
        first, last = _ends(field, low, high)
    else:
        first = _number(field, base)
        last = field.high if slash else first
    return range(first, last + 1, _step(field, step_text) if slash else 1)


def _ends(field: _Field, low: str, high: str) -> tuple[int, int]:
    first, last = _number(field, low), _number(field, high)
    if field is _WEEKDAY and last == 0 and first > 0:
        last = 7  # FRI-SUN: Sunday may end the week
    if first > last:
        whole = f"{low}-{field.high},{field.low}-{high}"
        raise InvalidSchedule(
            f"{field.name}: {low}-{high} is a descending range; to wrap around write {whole}"
        )
    return first, last


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not (text.isascii() and text.isdigit()):
        shown = repr(text) if text else "(empty)"
        raise InvalidSchedule(
            f"{field.name}: invalid value {shown}; expected {field.takes}, ranges, steps or lists"
        )
    number = _small(text)
    if not field.low <= number <= field.high:
        raise InvalidSchedule(f"{field.name}: {text} is out of range; expected {field.takes}")
    return number


def _step(field: _Field, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= _small(text) <= field.high):
        raise InvalidSchedule(f"{field.name}: a step must be a number from 1 to {field.high}, not {text!r}")
    return int(text)


def _small(digits: str) -> int:
    """Parse digits, or return a number too large for any field: Python rejects very long integers."""
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _nth_weekday(item: str) -> tuple[int, int] | None:
    if match := _NTH.match(item):
        week = _small(match[2])
        if not 1 <= week <= _MOST_WEEKS:
            raise InvalidSchedule(f"day of week: {item} has week {match[2]}; weeks are 1 to 5")
        return _number(_WEEKDAY, match[1]) % 7, week
    if match := _LAST.match(item):
        return _number(_WEEKDAY, match[1]) % 7, 0
    return None
