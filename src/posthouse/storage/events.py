"""Take events from the outbox and record their matches in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posthouse.storage.queries import Db, call_row, call_rows, fetch_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An event to match. Its context is JSON text, or None if the event was deleted by retention."""

    event: dict[str, Any]
    context: str | None
    triggers: list[dict[str, Any]]


async def events_waiting(connection: Db) -> bool:
    """Return whether there may be events to match. Much cheaper than taking them."""
    return bool(await fetch_value(connection, "events_waiting"))


async def take_events(connection: Db, limit: int) -> list[Taken]:
    """Return unmatched events with the triggers that match them, locked until the transaction ends."""
    return await call_rows(connection, "take_events", Taken, limit=limit)


async def match_events(
    connection: Db, events: Sequence[str], results: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Create the jobs and mark the events as matched."""
    return await call_row(connection, "match_events", events=list(events), results=json.dumps(list(results)))
