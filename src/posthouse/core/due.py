"""Which times of a schedule are to run now, and which are too late. Whatever happened, it is bounded.

A keeper may have slept for a month, and a clock may have been put back: what is due is worked out from where
the schedule stands and the time that it is, never by waiting for each time in turn.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from posthouse.core.schedule import Schedule

Missed: TypeAlias = Literal["skip", "once", "catch_up"]

GRACE = timedelta(minutes=1)
"""So late a run may be that must not be late."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a schedule stands: its next time (None: to be worked out), its last, and when it was changed."""

    next_at: datetime | None
    last_at: datetime | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: make these runs, oldest first; note that those from ``missed[0]`` to ``missed[1]`` were not
    made; and look again at ``next_at``.
    """

    runs: tuple[datetime, ...]
    missed: tuple[datetime, datetime] | None
    next_at: datetime | None


def plan(schedule: Schedule, standing: Standing, now: datetime, missed: Missed, limit: int) -> Plan:
    """``skip``: only one that is on time. ``once``: the latest one due. ``catch_up``: the last ``limit``."""
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


def _since(standing: Standing, now: datetime) -> datetime:
    """From when on times count that have not been dealt with."""
    if standing.next_at is None:  # new or changed: from then on, though nobody looked until now
        return min(standing.changed_at, now) + _INSTANT
    if standing.last_at is not None and standing.last_at > now:
        # The clock was put back, perhaps by years: go on from the time that it is. What ran is on record.
        return min(standing.next_at, now + _INSTANT)
    return standing.next_at


def jitter(trigger_id: str, nominal: datetime, most_seconds: float) -> timedelta:
    """How much later than its time a run may start: always the same for the same run."""
    digest = hashlib.sha256(f"{trigger_id} {nominal.timestamp():.6f}".encode()).digest()
    return timedelta(seconds=most_seconds * int.from_bytes(digest[:6], "big") / 2**48)
