"""Why a job is where it is, for somebody who sees one tenant's jobs: nothing of others', or the operator's.

Workers and limits are shared. That a limit is full may be told; who fills it, how many run and on which
machines may not.
"""

from __future__ import annotations

from dataclasses import replace

from posthouse.insights.reasons import Hindrance, Place, Why

_OWN = {"tenant", "key"}
"""Limits that count the jobs of each tenant apart."""


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
            return f"no worker takes it: it is in queue {place.queue!r} and of kind {place.kind!r}"
        case "limit":
            return f"limit {why.limits[0].name!r} is full"
        case "preferred":
            return "left to a worker that it prefers; others take it after that"
        case "ready":
            return f"ready, {why.ahead:,} before it" if why.ahead else "ready, none before it"
        case _:
            return why.summary


def _limit(limit: Hindrance) -> Hindrance:
    return limit if limit.per in _OWN else replace(limit, in_use=len(limit.holders), tokens=None)
