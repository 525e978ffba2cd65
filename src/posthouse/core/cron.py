"""Parse the five fields of a cron expression: days, and minutes of a day. Pure calendar, no time zone.

Besides numbers, names, ranges, steps and lists: ``L`` is the last day of the month, ``FRI#2`` the second
Friday, ``FRIL`` the last Friday.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Collection, Iterator, Sequence
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
"""Years that are searched for a match: a 29 February on a given weekday occurs within 40 years."""

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_NTH = re.compile(r"([A-Z]+|\d)#(\d+)\Z")
_LAST = re.compile(r"([A-Z]{3}|\d)L\Z")
_HOURS = 24
_MAX_WEEKS = 5
_MAX_DIGITS = 9


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

    ``minutes`` count from midnight, weekdays from Sunday = 0. In ``nth``, 0 means the last of the month.
    ``any_hour``: the hour field is ``*``. ``wild``: the hour field is ``*``, or the minute field begins with
    a star.
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
        """Return whether the expression matches on this day."""
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
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _nth_weekday(item: str) -> tuple[int, int] | None:
    if match := _NTH.match(item):
        week = _small(match[2])
        if not 1 <= week <= _MAX_WEEKS:
            raise InvalidSchedule(f"day of week: {item} has week {match[2]}; weeks are 1 to 5")
        return _number(_WEEKDAY, match[1]) % 7, week
    if match := _LAST.match(item):
        return _number(_WEEKDAY, match[1]) % 7, 0
    return None


MAX_LISTED = 6
"""Maximum length of a list in a description; longer lists are described field by field, as written."""

_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONDAY_FIRST = (1, 2, 3, 4, 5, 6, 0)
_WHICH = ("last", "first", "second", "third", "fourth", "fifth")
_FIELD_NAMES = ("minute", "hour", "day of the month", "month", "day of the week")
_MINUTES_PER_HOUR, _DAYS_PER_MONTH, _MONTHS_PER_YEAR, _DAYS_PER_WEEK = 60, 31, 12, 7
_SPAN = 3
"""Minimum number of consecutive values that are described by the first and the last."""


class _Unusual(Exception):
    """The expression has no short description."""


def describe_cron(expression: str) -> str:
    """Describe a cron expression; unusual expressions are described field by field."""
    cron = Cron.parse(expression)
    fields = ALIASES.get(expression.strip().lower(), expression).upper().split()
    try:
        times, days = _times(cron), _days(cron)
    except _Unusual:
        return _field_by_field(fields)
    if not days:
        return times if "every" in times else f"{times} every day"
    return f"{days} {times}" if days.startswith("on the") else f"{times} {days}"


def describe_interval(seconds: int) -> str:
    for length, name in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % length == 0 and seconds != 86400:  # noqa: PLR2004 - "every day" would suggest midnight
            count = seconds // length
            return f"every {name}" if count == 1 else f"every {count} {name}s"
    return "every 24 hours"


def _times(cron: Cron) -> str:
    hours = sorted({minute // _MINUTES_PER_HOUR for minute in cron.minutes})
    minutes = sorted({minute % _MINUTES_PER_HOUR for minute in cron.minutes})
    if len(minutes) * len(hours) <= MAX_LISTED and not _is_even(minutes, hours):
        return f"at {_listed([_clock(hour, minute) for hour in hours for minute in minutes])}"
    if len(minutes) == 1:
        return _hourly(minutes[0], hours)
    return f"{_within_an_hour(minutes)}{_in_hours(hours)}"


def _is_even(minutes: list[int], hours: list[int]) -> bool:
    """Return whether the times have a shorter description than a list."""
    if len(minutes) == 1:
        return bool(_steps(hours, _HOURS)) and len(hours) > 2  # noqa: PLR2004 - two times are short enough as a list
    return bool(_steps(minutes, _MINUTES_PER_HOUR)) and (len(hours) == 1 or _in_a_row(hours))


def _hourly(minute: int, hours: list[int]) -> str:
    past = "" if minute == 0 else f", {minute} minutes past" if minute > 1 else ", 1 minute past"
    if len(hours) == _HOURS:
        return f"every hour{past}"
    if step := _steps(hours, _HOURS):
        return f"every {step} hours{past}"
    if _in_a_row(hours):
        return f"every hour from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"
    raise _Unusual


def _within_an_hour(minutes: list[int]) -> str:
    if len(minutes) == _MINUTES_PER_HOUR:
        return "every minute"
    if step := _steps(minutes, _MINUTES_PER_HOUR):
        return f"every {step} minutes"
    return f"at {_listed([str(minute) for minute in minutes])} minutes past every hour"


def _in_hours(hours: list[int]) -> str:
    if len(hours) == _HOURS:
        return ""
    if len(hours) == 1 or _in_a_row(hours):
        return f" from {_clock(hours[0], 0)} to {_clock(hours[-1], 59)}"
    if step := _steps(hours, _HOURS):
        return f" of every {_nth(step)} hour, from midnight on"
    return f" in the hours from {_listed([_clock(hour, 0) for hour in hours])}"


def _days(cron: Cron) -> str:
    in_month, in_week = _days_of_month(cron), _days_of_week(cron)
    if in_month and in_week:
        if not cron.either:
            raise _Unusual
        return f"on the {in_month} {_of_months(cron.months)} and {in_week}"
    if in_month:
        return f"on the {in_month} {_of_months(cron.months)}"
    within = "" if len(cron.months) == _MONTHS_PER_YEAR else f" in {_months(cron.months)}"
    if in_week:
        return f"{in_week}{within}"
    return f"every day{within}" if within else ""


def _days_of_month(cron: Cron) -> str:
    if len(cron.days) == _DAYS_PER_MONTH:
        return ""
    days = sorted(cron.days)
    named = [f"{_nth(days[0])} to {_nth(days[-1])}"] if _in_a_row(days) else [_nth(day) for day in days]
    return _listed([*named, *(["last day"] if cron.last_day else [])])


def _days_of_week(cron: Cron) -> str:
    if len(cron.weekdays) == _DAYS_PER_WEEK:
        return ""
    which = [f"the {_WHICH[nth]} {_WEEKDAY_NAMES[day]} of the month" for day, nth in sorted(cron.nth)]
    return f"on {_listed([*_named_weekdays(cron.weekdays), *which])}"


def _named_weekdays(weekdays: Collection[int]) -> list[str]:
    indexes = [index for index, day in enumerate(_MONDAY_FIRST) if day in weekdays]
    names = [_WEEKDAY_NAMES[_MONDAY_FIRST[index]] for index in indexes]
    if _in_a_row(indexes):
        return [f"{names[0]} to {names[-1]}"]
    return [f"{names[0]}s"] if len(names) == 1 else names


def _of_months(months: Collection[int]) -> str:
    return "of every month" if len(months) == _MONTHS_PER_YEAR else f"of {_months(months)}"


def _months(months: Collection[int]) -> str:
    numbers = sorted(months)
    if _in_a_row(numbers):
        return f"{_MONTH_NAMES[numbers[0] - 1]} to {_MONTH_NAMES[numbers[-1] - 1]}"
    return _listed([_MONTH_NAMES[number - 1] for number in numbers])


def _steps(values: Sequence[int], length: int) -> int | None:
    """Return the step between values that are evenly spaced over a whole hour or day, or None."""
    step = values[1] - values[0] if len(values) > 1 else 0
    even = step > 1 and length % step == 0 and list(values) == list(range(0, length, step))
    return step if even else None


def _in_a_row(values: Sequence[int]) -> bool:
    return len(values) >= _SPAN and values[-1] - values[0] == len(values) - 1


def _listed(items: Sequence[str]) -> str:
    if len(items) > MAX_LISTED:
        raise _Unusual
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"


def _nth(number: int) -> str:
    teens = range(11, 14)
    ending = "th" if number in teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _field_by_field(fields: Sequence[str]) -> str:
    said = [f"the {name} is {text}" for name, text in zip(_FIELD_NAMES, fields, strict=True) if text != "*"]
    return f"whenever {' and '.join(said)}"
