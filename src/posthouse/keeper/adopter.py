"""Gives jobs that were enqueued before their kind had a definition what the definition says."""

from __future__ import annotations

from posthouse.storage.connections import Line
from posthouse.storage.maintenance import adopt_jobs

ROUND_SECONDS = 30.0


class Adopter:
    """Creating a definition adopts the queued jobs of its kind; this finds the jobs of transactions that were
    open at that moment.
    """

    name = "adopter"

    def __init__(self, line: Line) -> None:
        self._line = line

    async def run_once(self) -> dict[str, int]:
        return {"adopted": await self._line.run(adopt_jobs)}

    def pause(self) -> float:
        return ROUND_SECONDS
