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
from posthouse.storage.keeper import check_workers, rescue, worker_names
from posthouse.storage.queries import Db, database_now


class OutageDetector:
    """A detector of gaps in this keeper's polls, such as an outage of the database.

    After a gap, workers get the grace period to renew their leases. ``poll_interval`` returns the planned
    seconds between two polls.
    """

    def __init__(self, grace: float, poll_interval: Callable[[], float]) -> None:
        self._grace = timedelta(seconds=grace)
        self._poll_interval = poll_interval
        self._since: datetime | None = None
        self._polled_at: datetime | None = None
        self._grace_until = 0.0

    async def has_no_recent_gap(self, connection: Db) -> bool:
        """Return whether there was no gap during the last grace period."""
        now = await database_now(connection)
        return now - self.record_poll(now) >= self._grace

    def record_poll(self, now: datetime) -> datetime:
        """Record a poll, and return the time since which there was no gap.

        Times are of the database, because the local monotonic clock stops while the machine is suspended.
        """
        gap = self._grace + timedelta(seconds=self._poll_interval())
        if self._since is None or self._polled_at is None or now - self._polled_at > gap:
            self._since = now
        self._polled_at = now
        return self._since

    def record_outage(self) -> None:
        """Record that this keeper lost the database: workers get the grace period to renew their leases."""
        self._polled_at = None
        self._grace_until = time.monotonic() + self._grace.total_seconds()

    @property
    def is_in_grace(self) -> bool:
        """Whether no worker may be declared lost now: workers may be reconnecting, as this keeper is."""
        return time.monotonic() < self._grace_until


_log = logging.getLogger("posthouse.keeper")


class WorkerMonitor:
    """The step that detects lost and returned workers.

    ``on_workers_lost`` is called when a worker was lost, so that its jobs are rescued at once.
    """

    name = "worker_monitor"

    def __init__(
        self,
        connection: ReconnectingConnection,
        settings: Settings,
        outage_detector: OutageDetector,
        on_workers_lost: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._outage_detector = outage_detector
        self._on_workers_lost = on_workers_lost

    async def run_once(self) -> dict[str, int]:
        try:
            if self._outage_detector.is_in_grace:
                await self._connection.run(database_now)  # notices a broken connection now
                return {"went_offline": 0, "came_back": 0}
            lost, returned = await self._connection.run(self._poll)
            if lost:
                self._on_workers_lost()
            if lost or returned:
                await self._report(lost, returned)
        except psycopg.OperationalError:
            self._outage_detector.record_outage()
            raise
        return {"went_offline": len(lost), "came_back": len(returned)}

    async def _poll(self, connection: Db) -> tuple[list[UUID], list[UUID]]:
        is_reliable = await self._outage_detector.has_no_recent_gap(connection)
        return await check_workers(connection, self._settings, judge=is_reliable)

    async def _report(self, lost: list[UUID], returned: list[UUID]) -> None:
        names = await self._connection.run(lambda c: worker_names(c, lost + returned))
        for worker in lost:
            _log.warning(
                "worker disconnected without shutting down worker=%s worker_id=%s", names.get(worker), worker
            )
        for worker in returned:
            _log.info("worker reconnected worker=%s worker_id=%s", names.get(worker), worker)

    def pause(self) -> float:
        return SELDOM_SECONDS


class Rescuer:
    """The step that rescues the jobs of lost workers and expired leases."""

    name = "rescuer"

    def __init__(
        self,
        connection: ReconnectingConnection,
        settings: Settings,
        outage_detector: OutageDetector,
        on_rescue: Callable[[], None],
    ) -> None:
        """Create the step. ``on_rescue`` is called when jobs were rescued, because they are due soon."""
        self._connection = connection
        self._settings = settings
        self._outage_detector = outage_detector
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
        if self._outage_detector.is_in_grace:
            return {"rescued": 0}
        started = time.monotonic()
        try:
            rescued = await self._connection.run(self._rescue)
        except psycopg.OperationalError:
            self._outage_detector.record_outage()
            raise
        if rescued:
            self._on_rescue()
        # The search for expired leases reads the whole table running, so slow searches run less often.
        self._pause = max(self._settings.rescue_seconds, 20 * (time.monotonic() - started))
        self._due_at = time.monotonic() + self._pause
        return {"rescued": rescued}

    async def _rescue(self, connection: Db) -> int:
        expired = await self._outage_detector.has_no_recent_gap(connection)
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
