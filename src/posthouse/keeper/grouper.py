"""Moves failures into their failure groups.

Counts are exact in between: reading a group adds the rows that were not moved yet.
"""

from __future__ import annotations

import time

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import forget_failures, group_failures

BATCH = 5000
FORGET_SECONDS = 3600.0


class Grouper:
    name = "grouper"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        self._days = settings.retention_days
        self._forget_at = 0.0
        self._moved = 0

    async def run_once(self) -> dict[str, int]:
        self._moved = await self._line.run(lambda c: group_failures(c, BATCH))
        return {"moved": self._moved, "forgotten": await self._forget()}

    async def _forget(self) -> int:
        """Delete failure groups whose jobs are past retention."""
        if time.monotonic() < self._forget_at:
            return 0
        self._forget_at = time.monotonic() + FORGET_SECONDS
        return await self._line.run(lambda c: forget_failures(c, self._days))

    def pause(self) -> float:
        return 0.0 if self._moved == BATCH else SELDOM_SECONDS
