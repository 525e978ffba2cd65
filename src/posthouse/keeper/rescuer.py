"""Rescues lost jobs: at once if their worker is lost, otherwise when the lease has expired."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import psycopg

from posthouse.keeper.lookout import Lookout
from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.maintenance import rescue
from posthouse.storage.queries import Db

_log = logging.getLogger("posthouse.keeper")


class Rescuer:
    name = "rescuer"

    def __init__(
        self, line: Line, settings: Settings, lookout: Lookout, on_rescue: Callable[[], None]
    ) -> None:
        """``on_rescue`` is called when jobs were rescued, which are due soon."""
        self._line = line
        self._settings = settings
        self._lookout = lookout
        self._on_rescue = on_rescue
        self._pause = settings.rescue_seconds
        self._due_at = 0.0
        self.has_leases = True
        """Whether any job was running at the last look; otherwise none can be lost."""

    @property
    def is_due(self) -> bool:
        """Whether its interval has passed since the last search."""
        return time.monotonic() >= self._due_at

    async def run_once(self) -> dict[str, int]:
        if self._lookout.blind:
            return {"rescued": 0}
        started = time.monotonic()
        try:
            rescued = await self._line.run(self._rescue)
        except psycopg.OperationalError:
            self._lookout.cut_off()
            raise
        if rescued:
            self._on_rescue()
        # Finding expired leases reads all of running: the longer that takes, the less often it is done.
        self._pause = max(self._settings.rescue_seconds, 20 * (time.monotonic() - started))
        self._due_at = time.monotonic() + self._pause
        return {"rescued": rescued}

    async def _rescue(self, connection: Db) -> int:
        expired = await self._lookout.settled(connection)
        rescued = 0
        while found := await rescue(connection, self._settings, expired=expired):
            rescued += len(found)
            for job_id, worker_id, event in found:
                _log.warning(
                    "job rescued from lost worker job_id=%s worker_id=%s event=%s", job_id, worker_id, event
                )
        return rescued

    def pause(self) -> float:
        return self._pause if self.has_leases else max(self._pause, SELDOM_SECONDS)
