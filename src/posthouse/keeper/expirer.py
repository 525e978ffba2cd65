"""Ends jobs that wait for a worker with newer code which does not come."""

from __future__ import annotations

import logging

from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import expire_mismatched

_log = logging.getLogger("posthouse.keeper")

ROUND_SECONDS = 30.0
MOST_JOBS = 1000


class Expirer:
    name = "expirer"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        self._after = settings.mismatch_seconds
        self._full = False

    async def run_once(self) -> dict[str, int]:
        expired = await self._line.run(lambda db: expire_mismatched(db, self._after, MOST_JOBS))
        for job_id in expired:
            _log.error("job expired, no worker with newer code accepts its payload job_id=%s", job_id)
        self._full = len(expired) == MOST_JOBS
        return {"expired": len(expired)}

    def pause(self) -> float:
        return 0.0 if self._full else ROUND_SECONDS
