"""Estimates how many keepers run, so that a large fleet does not poll more often than a small one."""

from __future__ import annotations

from posthouse.storage.connect import Line
from posthouse.storage.keeping import count_workers

SHARED_BY = 4
"""So many keepers look at full pace; with more, each looks less often and all together as often."""


class Crowd:
    name = "crowd"

    def __init__(self, line: Line) -> None:
        self._line = line
        self.patience = 1.0

    async def run_once(self) -> dict[str, int]:
        workers = await self._line.run(count_workers)
        self.patience = max(1.0, workers / SHARED_BY)
        return {}

    def pause(self) -> float:
        return 5.0 / self.patience  # independent of the patience
