"""Local times of a time zone: some do not exist, some occur twice."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from posthouse.errors import InvalidSchedule

_MACHINES_OWN = ("localtime", "posixrules", "Factory", "posix/", "right/")
"""Entries of the system's time zone folder that are not time zones."""

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """Return the IANA time zone. Raises InvalidSchedule with a similar name if it is unknown."""
    try:
        if not name.startswith(_MACHINES_OWN):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    names = {known for known in available_timezones() if not known.startswith(_MACHINES_OWN)}
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "use a name such as Europe/Berlin, America/New_York or UTC"
    raise InvalidSchedule(f"unknown time zone {name!r}; {hint}")


class Showing(NamedTuple):
    """When clocks show a local time: ``times`` is 0, 1 or 2. If 0, ``first`` is the first whole minute after
    it.
    """

    times: int
    first: datetime
    second: datetime


def showing(wall: datetime, zone: ZoneInfo) -> Showing:
    """Return when the clocks of a zone show this local time."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first == second:
        return Showing(1, first, first)
    if first < second:
        return Showing(2, first, second)
    end = _gap_end(second, first, zone)
    return Showing(0, end, end)


def _gap_end(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the first whole local minute after the gap, which lies between the two moments."""
    offset = _offset(after, zone)
    low, high = int(before.timestamp()), int(after.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(datetime.fromtimestamp(middle, UTC), zone) == offset:
            high = middle
        else:
            low = middle
    end = datetime.fromtimestamp(high, UTC)
    return end + timedelta(seconds=-end.astimezone(zone).second % 60)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


@lru_cache(maxsize=8192)
def steady_offset(day: date, zone: ZoneInfo) -> timedelta | None:
    """Return the UTC offset of this day if it is the same from the day before to the day after, or None."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    offset = _offset(noon, zone)
    # no zone changes its clocks twice within three hours
    moments = (noon + hours * _HOUR for hours in range(-48, 49, 3))
    return offset if all(_offset(moment, zone) == offset for moment in moments) else None


def jumped_from(moment: datetime, zone: ZoneInfo) -> datetime | None:
    """Return what clocks would show without the change that just happened, or None without a change."""
    before, now = _offset(moment - _MINUTE, zone), _offset(moment, zone)
    return (moment + before).replace(tzinfo=None) if before < now else None
