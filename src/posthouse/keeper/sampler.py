"""Samples each minute after it has ended."""

from __future__ import annotations

import time

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import forget_samples, sample_due

FORGET_SECONDS = 3600.0


class Sampler:
    name = "sampler"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        days = settings.kept_days()
        self._days = days.get("samples", days["default"])
        self._forget_at = 0.0

    async def run_once(self) -> dict[str, int]:
        sampled = await self._line.run(sample_due)
        return {"sampled": sampled, "forgotten": await self._forget()}

    async def _forget(self) -> int:
        if time.monotonic() < self._forget_at:
            return 0
        self._forget_at = time.monotonic() + FORGET_SECONDS
        return await self._line.run(lambda c: forget_samples(c, self._days))

    def pause(self) -> float:
        return SELDOM_SECONDS
