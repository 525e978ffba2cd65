"""Read the due schedules and record their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from posthouse.storage.queries import Db, call_row, call_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The current time, the schedules to process, and the seconds until the next one is due."""

    at: datetime
    triggers: list[dict[str, Any]]
    next_in: float | None


async def due_schedules(connection: Db, limit: int, *, thorough: bool) -> Look:
    """Return up to ``limit`` due schedules and as many new ones; ``thorough``: also those with runs in the
    future.
    """
    (look,) = await call_rows(connection, "due_schedules", Look, limit=limit, all=thorough)
    return look


async def fire_schedule(
    connection: Db, trigger: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], next_at: datetime
) -> dict[str, int]:
    """Record the runs of a trigger as it was read. All counts are zero if it has changed or was processed
    meanwhile.
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
