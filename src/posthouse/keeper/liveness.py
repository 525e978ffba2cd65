"""Detect workers that were lost or returned, and rescue the jobs of lost ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import psycopg

from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.maintenance import check_workers, rescue, worker_names
from posthouse.storage.queries import Db, database_now


class OutageDetector:
    """A detector of gaps in this keeper's polls, such as an outage of the database.

    After a gap, workers get the grace period to renew their leases. ``pace`` returns the planned seconds
    between two polls.
    """

    def __init__(self, grace: float, pace: Callable[[], float]) -> None:
        self._grace = timedelta(seconds=grace)
        self._pace = pace
        self._since: datetime | None = None
        self._seen: datetime | None = None
        self._blind_until = 0.0

    async def settled(self, connection: Db) -> bool:
        """Return whether there was no gap during the last grace period."""
        now = await database_now(connection)
        return now - self.see(now) >= self._grace

    def see(self, now: datetime) -> datetime:
        """Record a poll, and return the time since which there was no gap.

        Times are of the database, because the local monotonic clock stops while the machine is suspended.
        """
        gap = self._grace + timedelta(seconds=self._pace())
        if self._since is None or self._seen is None or now - self._seen > gap:
            self._since = now
        self._seen = now
        return self._since

    def cut_off(self) -> None:
        """Record that this keeper lost the database: workers get the grace period to renew their leases."""
        self._seen = None
        self._blind_until = time.monotonic() + self._grace.total_seconds()

    @property
    def blind(self) -> bool:
        """Whether no worker may be declared lost now: workers may be reconnecting, as this keeper is."""
        return time.monotonic() < self._blind_until


_log = logging.getLogger("posthouse.keeper")


class WorkerMonitor:
    """The step that detects lost and returned workers.

    ``on_loss`` is called when a worker was lost, so that its jobs are rescued at once.
    """

    name = "watch"

    def __init__(
        self,
        line: ReconnectingConnection,
        settings: Settings,
        lookout: OutageDetector,
        on_loss: Callable[[], None],
    ) -> None:
        self._line = line
        self._settings = settings
        self._lookout = lookout
        self._on_loss = on_loss

    async def run_once(self) -> dict[str, int]:
        try:
            if self._lookout.blind:
                await self._line.run(database_now)  # notices a broken connection now
                return {"went_offline": 0, "came_back": 0}
            gone, back = await self._line.run(self._look)
            if gone:
                self._on_loss()
            if gone or back:
                await self._report(gone, back)
        except psycopg.OperationalError:
            self._lookout.cut_off()
            raise
        return {"went_offline": len(gone), "came_back": len(back)}

    async def _look(self, connection: Db) -> tuple[list[UUID], list[UUID]]:
        settled = await self._lookout.settled(connection)
        return await check_workers(connection, self._settings, judge=settled)

    async def _report(self, gone: list[UUID], back: list[UUID]) -> None:
        names = await self._line.run(lambda c: worker_names(c, gone + back))
        for worker in gone:
            _log.warning(
                "worker disconnected without shutting down worker=%s worker_id=%s", names.get(worker), worker
            )
        for worker in back:
            _log.info("worker reconnected worker=%s worker_id=%s", names.get(worker), worker)

    def pause(self) -> float:
        return SELDOM_SECONDS


class Rescuer:
    """The step that rescues the jobs of lost workers and expired leases."""

    name = "rescuer"

    def __init__(
        self,
        line: ReconnectingConnection,
        settings: Settings,
        lookout: OutageDetector,
        on_rescue: Callable[[], None],
    ) -> None:
        """Create the step. ``on_rescue`` is called when jobs were rescued, because they are due soon."""
        self._line = line
        self._settings = settings
        self._lookout = lookout
        self._on_rescue = on_rescue
        self._pause = settings.rescue_seconds
        self._due_at = 0.0
        self.has_leases = True
        """Whether any job was running at the agenda's last poll; otherwise no job can be lost."""

    @property
    def is_due(self) -> bool:
        """Whether the interval since the last search has passed."""
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
        # The search for expired leases reads the whole table running, so slow searches run less often.
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
