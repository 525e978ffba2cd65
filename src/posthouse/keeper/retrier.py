"""Advances bulk retries and cancellations, each at its rate; halts a retry if too many jobs fail again."""

from __future__ import annotations

import logging
from uuid import UUID

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import advance_bulk_change

_log = logging.getLogger("posthouse.keeper")

BATCH = 50
STEPS = 20
BUSY_SECONDS = 0.2


class Retrier:
    name = "retrier"

    def __init__(self, line: Line) -> None:
        self._line = line
        self._busy = False

    async def run_once(self) -> dict[str, int]:
        """Advance bulk changes until their rates are used up or none is left."""
        counts = {"retried": 0, "canceled": 0, "skipped": 0}
        self._busy = False
        idle: set[UUID] = set()
        for _ in range(STEPS):
            step = await self._line.run(lambda c: advance_bulk_change(c, BATCH))
            if step is None:
                break
            self._busy = True
            bulk_id, retried, canceled, skipped, heard = step
            counts["retried"] += retried
            counts["canceled"] += canceled
            counts["skipped"] += skipped
            if not retried + canceled + skipped + heard:
                if bulk_id in idle:
                    break
                idle.add(bulk_id)
        return counts

    def pause(self) -> float:
        return BUSY_SECONDS if self._busy else SELDOM_SECONDS
