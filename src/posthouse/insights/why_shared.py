"""Why a job has not started, for callers that may see one tenant only.

Workers and limits are shared. Such a caller may learn that a limit is full, but not which jobs fill it, how
many run, or on which machines.
"""

from __future__ import annotations

from dataclasses import replace

from posthouse.insights.reasons import Hindrance, Place, Why, undefined_summary

_OWN = {"tenant", "key"}
"""Limits that count each tenant separately."""


def as_tenants_see(why: Why, place: Place) -> Why:
    return replace(
        why,
        summary=_summary(why, place),
        advice="",
        also=[],
        blocked_by=[blocker for blocker in why.blocked_by if blocker.status is not None],
        limits=[_limit(limit) for limit in why.limits],
        paused_by=None,
        workers=[],
        starts_in_seconds=None,
    )


def _summary(why: Why, place: Place) -> str:
    match why.reason:
        case "paused":
            return f"queue {place.queue!r} is paused"
        case "no_worker":
            return _unserved(place)
        case "limit":
            return f"limit {why.limits[0].name!r} is full"
        case "preferred":
            return "reserved for a preferred worker; any worker can take it afterwards"
        case "ready":
            return f"ready, {why.ahead:,} ahead of it" if why.ahead else "ready, none ahead of it"
        case _:
            return why.summary


def _unserved(place: Place) -> str:
    if place.needs_newer_code:
        return f"the workers that serve kind {place.kind!r} run older code, which does not accept its payload"
    if place.lacks_definition:
        return undefined_summary(place)
    return f"no live worker serves queue {place.queue!r} with kind {place.kind!r}"


def _limit(limit: Hindrance) -> Hindrance:
    return limit if limit.per in _OWN else replace(limit, in_use=len(limit.holders), tokens=None)
