"""Local times of a time zone: some do not exist, some occur twice."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from posthouse.core.cron import Cron, describe_cron, describe_interval
from posthouse.core.duration import seconds
from posthouse.errors import ConfigurationError, InvalidSchedule

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
    """The moments at which clocks show a local time.

    ``times`` is 0, 1 or 2. If it is 0, ``first`` is the first whole minute after the gap.
    """

    times: int
    first: datetime
    second: datetime


def showing(wall: datetime, zone: ZoneInfo) -> Showing:
    """Return the moments at which the clocks of a zone show this local time."""
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
    # No zone changes its clocks twice within three hours.
    moments = (noon + hours * _HOUR for hours in range(-48, 49, 3))
    return offset if all(_offset(moment, zone) == offset for moment in moments) else None


def jumped_from(moment: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the local time without the clock change of the last minute.

    None if clocks did not go forward in that minute.
    """
    before, now = _offset(moment - _MINUTE, zone), _offset(moment, zone)
    return (moment + before).replace(tzinfo=None) if before < now else None


Gap: TypeAlias = Literal["next", "skip"]
Fold: TypeAlias = Literal["once", "twice"]

GAPS = ("next", "skip")
FOLDS = ("once", "twice")
MAX_EXPRESSION_CHARS = 512
MAX_INTERVAL = 366 * 86400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DAY = timedelta(days=1)
_NARROWEST = timedelta(minutes=1)
_FEW = 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A run of a schedule: its time, its local time, and the effect of a clock change."""

    at: datetime
    local: datetime
    effect: Literal["", "moved", "first", "second"] = ""
    """``moved``: the run replaces local times that do not exist.

    ``first`` and ``second``: the run is at the first or second occurrence of a local time that occurs twice.
    """
    instead_of: tuple[datetime, ...] = ()
    """The skipped local times that the run replaces."""
    note: str = ""
    """The effect in words."""


@dataclass(frozen=True, slots=True)
class Schedule:
    expression: str
    zone: ZoneInfo
    gap: Gap
    fold: Fold
    rule: Cron | int = field(compare=False)
    """The cron fields, or the seconds of an interval."""

    @staticmethod
    def parse(expression: str, zone: str = "UTC", *, gap: Gap = "next", fold: Fold = "once") -> Schedule:
        """Parse ``0 9 * * MON-FRI``, ``@daily`` or ``every 15m``. Raises InvalidSchedule with the reason."""
        return _parsed(expression, zone, gap, fold)

    def after(self, moment: datetime) -> datetime | None:
        """Return the next time after this moment in UTC, or None if there is none."""
        return next(self.times_after(moment), None)

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        return list(islice(self.times_after(after), count))

    def occurrences(self, after: datetime, count: int) -> list[Occurrence]:
        """Return the next runs with the effect of clock changes."""
        return [self.occurrence(at) for at in self.upcoming(after, count)]

    def latest(self, since: datetime, until: datetime, count: int) -> list[datetime]:
        """Return the last ``count`` times from ``since`` to ``until``, both included, oldest first.

        The search goes backwards in steps, because iterating over all runs of a long period would be slow.
        """
        width = _NARROWEST
        while True:
            start = max(since, until - width) if width < until - since else since
            found = self._between(start, until)
            if len(found) >= count or start <= since:
                return found[-count:] if count else []
            width *= 2

    def times_after(self, moment: datetime) -> Iterator[datetime]:
        """Yield all times after this moment in UTC."""
        times = self._cron_after if isinstance(self.rule, Cron) else self._interval_after
        try:
            yield from times(moment.astimezone(UTC))
        except OverflowError:  # the year 10000
            return

    def occurrence(self, at: datetime) -> Occurrence:
        """Return the run at this time with the effect of a clock change."""
        local = at.astimezone(self.zone)
        if not isinstance(self.rule, Cron):
            return Occurrence(at, local)
        swallowed = self._swallowed_before(at, self.rule)
        if swallowed:
            return Occurrence(
                at, local, "moved", swallowed, f"for {_clock_times(swallowed)}, which clocks skip"
            )
        if showing(local.replace(tzinfo=None), self.zone).times == 1:
            return Occurrence(at, local)
        which: Literal["first", "second"] = "second" if local.fold else "first"
        return Occurrence(at, local, which, (), f"the {which} of two {local:%H:%M}")

    @property
    def description(self) -> str:
        """Describe the schedule in words. Intervals have no time zone."""
        if isinstance(self.rule, Cron):
            return f"{describe_cron(self.expression)}, {self.zone.key}"
        return describe_interval(self.rule)

    def _between(self, since: datetime, until: datetime) -> list[datetime]:
        found = []
        for at in self.times_after(since - timedelta(microseconds=1)):
            if at > until:
                break
            found.append(at)
        return found

    def _interval_after(self, moment: datetime) -> Iterator[datetime]:
        assert isinstance(self.rule, int)
        step = timedelta(seconds=self.rule)
        at = EPOCH + ((moment - EPOCH) // step) * step
        while True:
            at += step
            yield at

    def _cron_after(self, moment: datetime) -> Iterator[datetime]:
        assert isinstance(self.rule, Cron)
        today = moment.astimezone(self.zone).date()
        waiting: list[datetime] = []  # clocks that go back over midnight show the previous day again
        for day in self.rule.days_from(max(today, date.min + _DAY) - _DAY):
            offset = steady_offset(day, self.zone)
            if offset is None:
                times = _odd_day(self, day)
                found = sorted({*waiting, *times[bisect_right(times, moment) :]})
                done = bisect_right(found, waiting[-1]) if waiting else 0
                yield from found[:done]
                waiting = found[done:]
            else:
                yield from waiting
                waiting = []
                yield from _plain_day(day, offset, self.rule, moment)
        yield from waiting

    def _swallowed_before(self, at: datetime, rule: Cron) -> tuple[datetime, ...]:
        """Return the skipped local times that the run at this time replaces."""
        start = jumped_from(at, self.zone)
        if start is None or self.gap == "skip" or rule.any_hour:
            return ()
        end = at.astimezone(self.zone).replace(tzinfo=None)
        midnight = start.replace(hour=0, minute=0, second=0)
        days = [midnight + n * _DAY for n in range((end - midnight).days + 1)]
        walls = (day + timedelta(minutes=n) for day in days if rule.on(day.date()) for n in rule.minutes)
        return tuple(wall for wall in walls if start <= wall < end)


def _clock_times(walls: tuple[datetime, ...]) -> str:
    times = [f"{wall:%H:%M}" for wall in walls]
    return ", ".join(times) if len(times) <= _FEW else f"{times[0]} … {times[-1]}"


def _plain_day(day: date, offset: timedelta, rule: Cron, moment: datetime) -> Iterator[datetime]:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - offset
    passed = (moment - start) // timedelta(minutes=1)
    for minute in rule.minutes[bisect_right(rule.minutes, passed) :]:
        yield start + timedelta(minutes=minute)


@lru_cache(maxsize=64)
def _odd_day(schedule: Schedule, day: date) -> list[datetime]:
    """Return the times of a day near a clock change. Cached, because they are requested repeatedly."""
    rule = schedule.rule
    assert isinstance(rule, Cron)
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - local time
    found: set[datetime] = set()
    for minute in rule.minutes:
        times, first, second = showing(midnight + timedelta(minutes=minute), schedule.zone)
        if times or (schedule.gap == "next" and not rule.any_hour):
            found.add(first)
        if times > 1 and (schedule.fold == "twice" or rule.wild):
            found.add(second)
    return sorted(found)


@lru_cache(maxsize=4096)
def _parsed(expression: str, zone: str, gap: Gap, fold: Fold) -> Schedule:
    if gap not in GAPS or fold not in FOLDS:
        raise InvalidSchedule(
            f"gap must be next or skip, not {gap!r}; fold must be once or twice, not {fold!r}"
        )
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise InvalidSchedule(f"a schedule must have at most {MAX_EXPRESSION_CHARS} characters")
    head, *rest = expression.split(maxsplit=1) or [""]
    interval = head.lower() in {"every", "@every"}
    rule = _interval(expression, *(rest or [""])) if interval else Cron.parse(expression)
    return Schedule(expression, zone_named(zone), gap, fold, rule)


def _interval(expression: str, length: str) -> int:
    try:
        amount = seconds(length)
    except ConfigurationError as error:
        raise InvalidSchedule(f"{expression!r}: {error}") from None
    if amount < 1 or amount != int(amount) or amount > MAX_INTERVAL:
        raise InvalidSchedule(f"{expression!r}: an interval must be whole seconds from 1s to 366d")
    return int(amount)


Missed: TypeAlias = Literal["skip", "once", "catch_up"]

GRACE = timedelta(minutes=1)
"""Maximum delay of a run with ``missed="skip"``."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """The stored position of a schedule: the next run, the last run, and the time of the last change.

    ``next_at`` is None if it has not been computed yet.
    """

    next_at: datetime | None
    last_at: datetime | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of a schedule.

    Start ``runs``, oldest first; record the times from ``missed[0]`` to ``missed[1]`` as missed; check again
    at ``next_at``.
    """

    runs: tuple[datetime, ...]
    missed: tuple[datetime, datetime] | None
    next_at: datetime | None


def plan(schedule: Schedule, standing: ScheduleState, now: datetime, missed: Missed, limit: int) -> Plan:
    """Return the runs to start now, the times that were missed, and when to check again.

    ``skip`` runs only what is on time, ``once`` the latest time due, ``catch_up`` the last ``limit`` times.
    """
    since = _since(standing, now)
    first = schedule.after(since - _INSTANT)
    if first is None or first > now:
        return Plan((), None, first)
    runs = schedule.latest(first, now, limit if missed == "catch_up" else 1)
    if missed == "skip" and now - runs[-1] > GRACE:
        runs = []
    end = runs[0] - _INSTANT if runs else now
    left_out = schedule.latest(first, end, 1)
    return Plan(tuple(runs), (first, left_out[0]) if left_out else None, schedule.after(now))


def _since(standing: ScheduleState, now: datetime) -> datetime:
    """Return the start of the period whose times have not been handled yet."""
    if standing.next_at is None:  # new or changed: count from the change, even if no keeper has run since
        return min(standing.changed_at, now) + _INSTANT
    if standing.last_at is not None and standing.last_at > now:
        # The clock was set back, perhaps by years: continue from the current time. Past runs are recorded.
        return min(standing.next_at, now + _INSTANT)
    return standing.next_at


def jitter(trigger_id: str, nominal: datetime, most_seconds: float) -> timedelta:
    """Return the delay of a run. It is deterministic: the same run always has the same delay."""
    digest = hashlib.sha256(f"{trigger_id} {nominal.timestamp():.6f}".encode()).digest()
    return timedelta(seconds=most_seconds * int.from_bytes(digest[:6], "big") / 2**48)
