"""Takes events from the outbox and writes what became of them, in the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posthouse.storage.reading import Db, fetch, fetch_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An event to match. Its context is JSON text, None if the event itself is not kept any more."""

    event: dict[str, Any]
    context: str | None
    triggers: list[dict[str, Any]]


async def take_events(connection: Db, limit: int) -> list[Taken]:
    """Events that nobody has matched, with the triggers that want them; ours until the transaction ends."""
    return await fetch(connection, "events_take", Taken, limit=limit)


async def match_events(
    connection: Db, events: Sequence[str], results: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Makes the jobs, and ends these events' wait."""
    return await fetch_row(connection, "events_match", events=list(events), results=json.dumps(list(results)))
