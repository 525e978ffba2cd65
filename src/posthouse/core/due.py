"""Decide which times of a schedule are due now and which were missed.

The result is computed from the stored position of the schedule and the current time, so that the work is
bounded even if no keeper ran for a month or the clock was set back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from posthouse.core.schedule import Schedule

Missed: TypeAlias = Literal["skip", "once", "catch_up"]

GRACE = timedelta(minutes=1)
"""Maximum delay of a run with ``missed="skip"``."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Standing:
    """The stored position of a schedule: next run (None: not computed yet), last run, and time of the last
    change.
    """

    next_at: datetime | None
    last_at: datetime | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: start ``runs``, oldest first; record the times from ``missed[0]`` to ``missed[1]`` as
    missed; check again at ``next_at``.
    """

    runs: tuple[datetime, ...]
    missed: tuple[datetime, datetime] | None
    next_at: datetime | None


def plan(schedule: Schedule, standing: Standing, now: datetime, missed: Missed, limit: int) -> Plan:
    """Return what to do now.

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


def _since(standing: Standing, now: datetime) -> datetime:
    """Return the time from which unhandled times count."""
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
