"""Promotes jobs that are due or whose dependencies have ended: moves them from waiting to ready."""

from __future__ import annotations

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import promote

BATCH = 1000
SOON_SECONDS = 0.5
"""It waits itself for jobs that are due within this time; the agenda finds the others when they are."""
SHORTEST_PAUSE = 0.01


class Promoter:
    name = "promoter"

    def __init__(self, line: Line) -> None:
        self._line = line
        self.swept = "{0,0,0}"
        """Up to which transactions dependencies were settled."""
        self._pause = SELDOM_SECONDS

    async def run_once(self) -> dict[str, int]:
        promoted, due, self.swept = await self._line.run(lambda c: promote(c, BATCH, self.swept))
        if due is None or due > SOON_SECONDS:
            self._pause = SELDOM_SECONDS
        else:
            self._pause = max(SHORTEST_PAUSE, due)
        return {"promoted": promoted}

    def pause(self) -> float:
        return self._pause
