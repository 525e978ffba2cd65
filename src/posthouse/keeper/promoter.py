"""Promotes jobs that are due or whose dependencies have ended: moves them from waiting to ready."""

from __future__ import annotations

import asyncio

from posthouse.storage.connect import Line
from posthouse.storage.keeping import promote

BATCH = 1000
LONGEST_PAUSE = 0.5
SHORTEST_PAUSE = 0.01


class Promoter:
    name = "promoter"

    def __init__(self, line: Line) -> None:
        self._line = line
        self._swept = "{0,0,0}"
        self._pause = LONGEST_PAUSE
        self.bell = asyncio.Event()

    def hurry(self) -> None:
        """Run now: rescued jobs are due soon."""
        self.bell.set()

    async def run_once(self) -> dict[str, int]:
        promoted, due, self._swept = await self._line.run(lambda c: promote(c, BATCH, self._swept))
        self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, LONGEST_PAUSE if due is None else due))
        return {"promoted": promoted}

    def pause(self) -> float:
        return self._pause
