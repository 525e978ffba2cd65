"""Keeps the table of lanes small: every claim reads each lane of its queues."""

from __future__ import annotations

from posthouse.storage.connections import Line
from posthouse.storage.maintenance import mend_lanes, tidy_lanes

ROUND_SECONDS = 600.0
MEND_SECONDS = 5.0
MENDINGS = 12


class Lanes:
    """Delete empty lanes, then repair lanes for a minute.

    A job enqueued during the deletion would otherwise be invisible to workers.
    """

    name = "lanes"

    def __init__(self, line: Line) -> None:
        self._line = line
        self._mendings = MENDINGS  # another keeper may have deleted some

    async def run_once(self) -> dict[str, int]:
        mended = await self._line.run(mend_lanes)
        if self._mendings:
            self._mendings -= 1
            return {"forgotten": 0, "mended": mended}
        forgotten = await self._line.run(tidy_lanes)
        self._mendings = MENDINGS if forgotten else 0
        return {"forgotten": forgotten, "mended": mended}

    def pause(self) -> float:
        return MEND_SECONDS if self._mendings else ROUND_SECONDS
