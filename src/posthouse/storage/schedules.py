"""Reads the schedules that are due and writes what became of their times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from posthouse.storage.reading import Db, fetch, fetch_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The time that it is, the schedules to see to, and seconds until the next one is due."""

    now: datetime
    triggers: list[dict[str, Any]]
    next_in: float | None


async def due_schedules(connection: Db, limit: int, *, thorough: bool) -> Look:
    """Up to ``limit`` that are due and as many that are new; thorough: also those that ran in the future."""
    (look,) = await fetch(connection, "schedules_due", Look, limit=limit, all=thorough)
    return look


async def fire_schedule(
    connection: Db, trigger: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], next_at: datetime
) -> dict[str, int]:
    """Makes the runs of a trigger as it was read; all zeros if it has changed since, or others were first."""
    return await fetch_row(
        connection,
        "schedule_fire",
        trigger=trigger["id"],
        version=trigger["version"],
        expected=trigger["next_at"],
        runs=json.dumps(list(runs)),
        next=next_at,
    )
