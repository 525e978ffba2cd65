"""Gives lost jobs to other workers: at once when their worker is gone, else when the lease has run out."""

from __future__ import annotations

import asyncio
import logging
import time

import psycopg

from posthouse.keeper.lookout import Lookout
from posthouse.settings import Settings
from posthouse.storage.connect import Line
from posthouse.storage.keeping import Db, rescue

_log = logging.getLogger("posthouse.keeper")

EXPIRED_SECONDS = 1.0


class Rescuer:
    name = "rescuer"

    def __init__(self, line: Line, settings: Settings, lookout: Lookout) -> None:
        self._line = line
        self._crash_limit = settings.crash_limit
        self._grace = settings.rescue_grace_seconds
        self._lookout = lookout
        self._pause = EXPIRED_SECONDS
        self.bell = asyncio.Event()

    def hurry(self) -> None:
        """Somebody is gone: look now."""
        self.bell.set()

    async def run_once(self) -> dict[str, int]:
        if self._lookout.blind:
            return {"rescued": 0}
        started = time.monotonic()
        try:
            rescued = await self._line.run(self._rescue)
        except psycopg.OperationalError:
            self._lookout.cut_off()
            raise
        # Finding expired leases reads all of running: the longer that takes, the less often it is done.
        self._pause = max(EXPIRED_SECONDS, 20 * (time.monotonic() - started))
        return {"rescued": rescued}

    async def _rescue(self, connection: Db) -> int:
        expired = await self._lookout.settled(connection)
        rescued = 0
        while found := await rescue(connection, self._crash_limit, self._grace, expired=expired):
            rescued += len(found)
            for job_id, worker_id, event in found:
                _log.warning("job %s was lost with worker %s: %s", job_id, worker_id, event)
        return rescued

    def pause(self) -> float:
        return self._pause
