"""Creates partitions ahead of time and deletes data past its retention."""

from __future__ import annotations

from posthouse.keeper.retention import Retention
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import make_partitions, tidy

ROUND_SECONDS = 600.0
REST = 1.0
"""After each step as long a pause as it took."""


class Retainer:
    """Uses its own connection, closed after each round, so that no other step waits for a long one."""

    name = "retainer"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        self._settings = settings

    async def run_once(self) -> dict[str, int]:
        try:
            made = await self._line.run(make_partitions)
            counts = await Retention(self._line, self._settings.kept_days(), rest=REST).run()
            tidied = await self._line.run(lambda c: tidy(c, self._settings.retention_days))
        finally:
            await self._line.close()
        return {"made": made, **counts, "tidied": tidied}

    def pause(self) -> float:
        return ROUND_SECONDS
