"""Describe cron expressions in words: ``at 02:30 on Monday to Friday``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from posthouse.core.cron import ALIASES, Cron

MOST_LISTED = 6
"""Longer lists are described field by field, as they were written."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONDAY_FIRST = (1, 2, 3, 4, 5, 6, 0)
_WHICH = ("last", "first", "second", "third", "fourth", "fifth")
_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_HOUR, _DAY, _MONTH, _YEAR, _WEEK = 60, 24, 31, 12, 7
_SPAN = 3
"""From this many consecutive values on, only the first and the last are named."""


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
    hours = sorted({minute // _HOUR for minute in cron.minutes})
    minutes = sorted({minute % _HOUR for minute in cron.minutes})
    if len(minutes) * len(hours) <= MOST_LISTED and not _is_even(minutes, hours):
        return f"at {_listed([_clock(hour, minute) for hour in hours for minute in minutes])}"
    if len(minutes) == 1:
        return _hourly(minutes[0], hours)
    return f"{_within_an_hour(minutes)}{_in_hours(hours)}"


def _is_even(minutes: list[int], hours: list[int]) -> bool:
    """Whether there is a shorter description than a list of the times."""
    if len(minutes) == 1:
        return bool(_steps(hours, _DAY)) and len(hours) > 2  # noqa: PLR2004 - two times are short enough as a list
    return bool(_steps(minutes, _HOUR)) and (len(hours) == 1 or _in_a_row(hours))


def _hourly(minute: int, hours: list[int]) -> str:
    past = "" if minute == 0 else f", {minute} minutes past" if minute > 1 else ", 1 minute past"
    if len(hours) == _DAY:
        return f"every hour{past}"
    if step := _steps(hours, _DAY):
        return f"every {step} hours{past}"
    if _in_a_row(hours):
        return f"every hour from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"
    raise _Unusual


def _within_an_hour(minutes: list[int]) -> str:
    if len(minutes) == _HOUR:
        return "every minute"
    if step := _steps(minutes, _HOUR):
        return f"every {step} minutes"
    return f"at {_listed([str(minute) for minute in minutes])} minutes past every hour"


def _in_hours(hours: list[int]) -> str:
    if len(hours) == _DAY:
        return ""
    if len(hours) == 1 or _in_a_row(hours):
        return f" from {_clock(hours[0], 0)} to {_clock(hours[-1], 59)}"
    if step := _steps(hours, _DAY):
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
    within = "" if len(cron.months) == _YEAR else f" in {_months(cron.months)}"
    if in_week:
        return f"{in_week}{within}"
    return f"every day{within}" if within else ""


def _days_of_month(cron: Cron) -> str:
    if len(cron.days) == _MONTH:
        return ""
    days = sorted(cron.days)
    named = [f"{_nth(days[0])} to {_nth(days[-1])}"] if _in_a_row(days) else [_nth(day) for day in days]
    return _listed([*named, *(["last day"] if cron.last_day else [])])


def _days_of_week(cron: Cron) -> str:
    if len(cron.weekdays) == _WEEK:
        return ""
    which = [f"the {_WHICH[nth]} {_WEEKDAYS[day]} of the month" for day, nth in sorted(cron.nth)]
    return f"on {_listed([*_named_weekdays(cron.weekdays), *which])}"


def _named_weekdays(weekdays: Collection[int]) -> list[str]:
    places = [place for place, day in enumerate(_MONDAY_FIRST) if day in weekdays]
    names = [_WEEKDAYS[_MONDAY_FIRST[place]] for place in places]
    if _in_a_row(places):
        return [f"{names[0]} to {names[-1]}"]
    return [f"{names[0]}s"] if len(names) == 1 else names


def _of_months(months: Collection[int]) -> str:
    return "of every month" if len(months) == _YEAR else f"of {_months(months)}"


def _months(months: Collection[int]) -> str:
    numbers = sorted(months)
    if _in_a_row(numbers):
        return f"{_MONTHS[numbers[0] - 1]} to {_MONTHS[numbers[-1] - 1]}"
    return _listed([_MONTHS[number - 1] for number in numbers])


def _steps(values: Sequence[int], length: int) -> int | None:
    """Return the step between values that are evenly spaced over a whole hour or day, or None."""
    step = values[1] - values[0] if len(values) > 1 else 0
    even = step > 1 and length % step == 0 and list(values) == list(range(0, length, step))
    return step if even else None


def _in_a_row(values: Sequence[int]) -> bool:
    return len(values) >= _SPAN and values[-1] - values[0] == len(values) - 1


def _listed(items: Sequence[str]) -> str:
    if len(items) > MOST_LISTED:
        raise _Unusual
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"


def _nth(number: int) -> str:
    teens = range(11, 14)
    ending = "th" if number in teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _field_by_field(fields: Sequence[str]) -> str:
    said = [f"the {name} is {text}" for name, text in zip(_FIELDS, fields, strict=True) if text != "*"]
    return f"whenever {' and '.join(said)}"
