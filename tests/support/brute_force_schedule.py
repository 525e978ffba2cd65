"""Schedules the slow way: every minute of time is looked at, and asked what the clocks show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile

MINUTE = timedelta(minutes=1)


def matches(fields, wall):
    """Whether a time on the wall fits minutes, hours, days, months, weekdays: each a set, None for a star."""
    minutes, hours, days, months, weekdays = fields
    day_fits = days is None or wall.day in days
    weekday_fits = weekdays is None or wall.isoweekday() % 7 in weekdays
    both_named = days is not None and weekdays is not None
    return (
        (minutes is None or wall.minute in minutes)
        and (hours is None or wall.hour in hours)
        and (months is None or wall.month in months)
        and ((day_fits or weekday_fits) if both_named else (day_fits and weekday_fits))
    )


def times_by_minute(fields, zone, start, end, *, gap="next", fold="once"):
    """The times in (start, end], which are whole minutes."""
    star = fields[0] is None or fields[1] is None
    found, moment = [], start
    before = _local_time(start, zone)
    while moment < end:
        moment += MINUTE
        local = moment.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        swallowed = _walls(before + MINUTE, wall)
        here = matches(fields, wall) and (star or fold == "twice" or not local.fold)
        made_up = gap == "next" and fields[1] is not None and any(matches(fields, w) for w in swallowed)
        if here or made_up:
            found.append(moment)
        before = wall
    return found


def _local_time(moment: datetime, zone) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _walls(first, end):
    while first < end:
        yield first
        first += MINUTE


def between(schedule, start, end):
    """The times of a schedule in (start, end], as it tells them itself."""
    return list(takewhile(lambda at: at <= end, schedule.times_after(start)))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
