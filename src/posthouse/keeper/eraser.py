"""Continues erasures of subjects whose jobs could not all be erased at once."""

from __future__ import annotations

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import advance_erasures

BATCH = 500
BUSY_SECONDS = 0.5


class Eraser:
    name = "eraser"

    def __init__(self, line: Line) -> None:
        self._line = line
        self._busy = False

    async def run_once(self) -> dict[str, int]:
        under_way, erased = await self._line.run(lambda c: advance_erasures(c, BATCH))
        self._busy = under_way > 0
        return {"erased": erased}

    def pause(self) -> float:
        return BUSY_SECONDS if self._busy else SELDOM_SECONDS
