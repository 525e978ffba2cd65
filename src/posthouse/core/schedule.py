"""Compute when a schedule runs: a cron expression in a time zone, or an interval.

Local times that do not exist or occur twice at a clock change:

- A time that is skipped when clocks go forward runs at the first valid minute after the gap (``gap="next"``)
  or not at all (``"skip"``). All times in one gap give one run.
- A time that occurs twice when clocks go back runs the first time (``fold="once"``) or both times
  (``"twice"``).
- A schedule with ``*`` in the hour field follows the clock: nothing is made up after a gap, because the next
  hour has its own run. With ``*`` in the hour field, or a star in the minute field, the repeated hour counts
  like the first, so that runs do not pause for an hour.

An interval (``every 15m``) counts from 1970-01-01 00:00 UTC and has no time zone, so every keeper computes
the same times, and neither restarts nor clock changes shift them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from posthouse.core.cron import Cron
from posthouse.core.cron_words import describe_cron, describe_interval
from posthouse.core.duration import seconds
from posthouse.core.zones import jumped_from, showing, steady_offset, zone_named
from posthouse.errors import ConfigurationError, InvalidSchedule

Gap: TypeAlias = Literal["next", "skip"]
Fold: TypeAlias = Literal["once", "twice"]

GAPS = ("next", "skip")
FOLDS = ("once", "twice")
LONGEST_EXPRESSION = 512
LONGEST_INTERVAL = 366 * 86400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DAY = timedelta(days=1)
_NARROWEST = timedelta(minutes=1)
_FEW = 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One run: when, the local time, and the effect of a clock change."""

    at: datetime
    local: datetime
    effect: Literal["", "moved", "first", "second"] = ""
    """``moved``: replaces times that do not exist. ``first`` or ``second``: of a local time that occurs
    twice.
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

        Searches backwards in steps, so that a long period with many runs is not iterated.
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
            return Occurrence(at, local, "moved", swallowed, f"for {_told(swallowed)}, which clocks skip")
        if showing(local.replace(tzinfo=None), self.zone).times == 1:
            return Occurrence(at, local)
        which: Literal["first", "second"] = "second" if local.fold else "first"
        return Occurrence(at, local, which, (), f"the {which} of two {local:%H:%M}")

    @property
    def words(self) -> str:
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


def _told(walls: tuple[datetime, ...]) -> str:
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
    if len(expression) > LONGEST_EXPRESSION:
        raise InvalidSchedule(f"a schedule must have at most {LONGEST_EXPRESSION} characters")
    head, *rest = expression.split(maxsplit=1) or [""]
    interval = head.lower() in {"every", "@every"}
    rule = _interval(expression, *(rest or [""])) if interval else Cron.parse(expression)
    return Schedule(expression, zone_named(zone), gap, fold, rule)


def _interval(expression: str, length: str) -> int:
    try:
        amount = seconds(length)
    except ConfigurationError as error:
        raise InvalidSchedule(f"{expression!r}: {error}") from None
    if amount < 1 or amount != int(amount) or amount > LONGEST_INTERVAL:
        raise InvalidSchedule(f"{expression!r}: an interval must be whole seconds from 1s to 366d")
    return int(amount)
