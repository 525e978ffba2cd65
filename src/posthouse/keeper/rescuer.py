"""Gives lost jobs to other workers: at once when their worker died, else when the lease has run out."""

from __future__ import annotations

import logging
import time

import psycopg

from posthouse.settings import Settings
from posthouse.storage.connect import Line
from posthouse.storage.keeping import bury_dead, rescue

_log = logging.getLogger("posthouse.keeper")

LOOK_SECONDS = 0.4
EXPIRED_SECONDS = 1.0


class Rescuer:
    name = "rescuer"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        self._crash_limit = settings.crash_limit
        self._grace = settings.rescue_grace_seconds
        self._silence = settings.lease_seconds
        self._not_before = 0.0
        self._expired_at = 0.0
        self._buried = False  # somebody was, and their jobs were not taken back yet

    async def run_once(self) -> dict[str, int]:
        if time.monotonic() < self._not_before:
            return {"dead_workers": 0, "rescued": 0}
        try:
            dead = await self._line.run(lambda c: bury_dead(c, self._grace, self._silence))
            self._buried |= bool(dead)
            rescued = await self._rescue()
        except psycopg.OperationalError:
            # We were cut off, perhaps everybody was: whoever could not renew gets time to do so.
            self._not_before = time.monotonic() + self._grace
            raise
        return {"dead_workers": len(dead), "rescued": rescued}

    async def _rescue(self) -> int:
        now = time.monotonic()
        if not self._buried and now < self._expired_at:
            return 0
        rescued, found = 0, await self._rescue_batch()
        while found:
            rescued += found
            found = await self._rescue_batch()
        self._buried = False
        spent = time.monotonic() - now
        # Finding expired leases reads all of running: the longer that takes, the less often it is done.
        self._expired_at = time.monotonic() + max(EXPIRED_SECONDS, 20 * spent)
        return rescued

    async def _rescue_batch(self) -> int:
        found = await self._line.run(lambda c: rescue(c, self._crash_limit, self._grace))
        for job_id, worker_id, event in found:
            _log.warning("job %s was lost with worker %s: %s", job_id, worker_id, event)
        return len(found)

    def pause(self) -> float:
        return LOOK_SECONDS
