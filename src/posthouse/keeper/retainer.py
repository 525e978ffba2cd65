"""Makes partitions ahead of time and drops those that have been kept long enough."""

from __future__ import annotations

from posthouse.settings import Settings
from posthouse.storage.connect import Line
from posthouse.storage.keeping import drop_partitions, make_partitions, tidy

ROUND_SECONDS = 600.0
DAYS_AHEAD = 7


class Retainer:
    name = "retainer"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        self._days = settings.retention_days

    async def run_once(self) -> dict[str, int]:
        made = await self._line.run(lambda c: make_partitions(c, DAYS_AHEAD))
        dropped = await self._line.run(lambda c: drop_partitions(c, self._days))
        tidied = await self._line.run(lambda c: tidy(c, self._days))
        return {"made": made, "dropped": len(dropped), "tidied": tidied}

    def pause(self) -> float:
        return ROUND_SECONDS
