"""Statements of the matcher and the scheduler, run in the transactions of these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from posthouse.storage.queries import Db, call_row, call_rows, fetch_value


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEvent:
    """An event to match. Its context is JSON text, or None if the event was deleted by retention."""

    event: dict[str, Any]
    context: str | None
    triggers: list[dict[str, Any]]


async def events_waiting(connection: Db) -> bool:
    """Return whether there may be events to match. Much cheaper than lock_pending_events."""
    return bool(await fetch_value(connection, "events_waiting"))


async def lock_pending_events(connection: Db, limit: int) -> list[PendingEvent]:
    """Return unmatched events with the triggers that match them, locked until the transaction ends."""
    return await call_rows(connection, "lock_pending_events", PendingEvent, limit=limit)


async def record_matches(
    connection: Db, events: Sequence[str], results: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Create the jobs and mark the events as matched."""
    return await call_row(
        connection, "record_matches", events=list(events), results=json.dumps(list(results))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedules:
    """The current time, the schedules to process, and the seconds until the next one is due."""

    at: datetime
    triggers: list[dict[str, Any]]
    next_in: float | None


async def due_schedules(connection: Db, limit: int, *, thorough: bool) -> DueSchedules:
    """Return up to ``limit`` due schedules and as many new ones.

    ``thorough``: also those with runs in the future, after the clock was set back.
    """
    (look,) = await call_rows(connection, "due_schedules", DueSchedules, limit=limit, all=thorough)
    return look


async def fire_schedule(
    connection: Db, trigger: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], next_at: datetime
) -> dict[str, int]:
    """Record the runs of a trigger as it was read.

    All counts are zero if the trigger has changed or was processed in the meantime.
    """
    return await call_row(
        connection,
        "fire_schedule",
        trigger=trigger["id"],
        version=trigger["version"],
        expected=trigger["next_at"],
        runs=json.dumps(list(runs)),
        next=next_at,
    )
