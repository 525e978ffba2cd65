"""Find in one statement which steps of the keeper have work, and wake them.

If each step polled on its own, an installation without jobs would run thirteen statements per second.
"""

from __future__ import annotations

import time

import psycopg

from posthouse.keeper.jobs import Promoter
from posthouse.keeper.liveness import OutageDetector, Rescuer
from posthouse.keeper.service import PollPacer, WakeupListener
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.keeper import (
    BackgroundWork,
    UrgentWork,
    keeper_background_work,
    keeper_urgent_work,
)

URGENT_SECONDS = 0.4
BACKGROUND_SECONDS = 2.0
MAX_SECONDS = 2.0
PAUSE_FACTOR = 20
"""The pause after a poll, as a multiple of the poll's duration: while a transaction pins the horizon, a poll
reads the dead rows of all finished jobs.
"""
SOON_PAUSES = 1.5
"""A step is woken if its work is due within this many pauses, because the next poll may be late."""


class UrgentAgenda:
    """The poll for due jobs, events, due schedules, and workers that were lost or returned."""

    name = "urgent_agenda"

    def __init__(
        self,
        connection: ReconnectingConnection,
        settings: Settings,
        wakeups: WakeupListener,
        *,
        pacer: PollPacer,
        outage_detector: OutageDetector,
        promoter: Promoter,
        rescuer: Rescuer,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._wakeups = wakeups
        self._pacer = pacer
        self._outage_detector = outage_detector
        self._promoter = promoter
        self._rescuer = rescuer
        self._pause = URGENT_SECONDS

    async def run_once(self) -> dict[str, int]:
        started = time.monotonic()
        try:
            work = await self._connection.run(
                lambda c: keeper_urgent_work(c, self._promoter.swept, self._settings.offline_after)
            )
        except psycopg.OperationalError:
            self._outage_detector.record_outage()
            self._wakeups.wake("worker_monitor")  # it notices now if its connection is broken too
            raise
        self._pause = min(MAX_SECONDS, max(URGENT_SECONDS, PAUSE_FACTOR * (time.monotonic() - started)))
        self._pacer.update(work.workers)
        self._outage_detector.record_poll(work.now)
        self._rescuer.has_leases = work.has_leases
        steps = self._steps_for(work)
        self._wakeups.wake(*steps)
        return dict.fromkeys(steps, 1)

    def _steps_for(self, work: UrgentWork) -> list[str]:
        soon = SOON_PAUSES * self._pause * self._pacer.interval_factor
        wanted = {
            "promoter": work.has_edges or (work.due_in is not None and work.due_in <= soon),
            "worker_monitor": work.workers_changed,
            "rescuer": work.has_leases and self._rescuer.is_due,
            "matcher": work.has_events,
            "scheduler": work.schedule_in is not None and work.schedule_in <= soon,
        }
        return [name for name, is_wanted in wanted.items() if is_wanted]

    def pause(self) -> float:
        return self._pause


class BackgroundAgenda:
    """The poll for failures, bulk changes, erasures, minutes to sample, and alerts."""

    name = "background_agenda"

    def __init__(self, connection: ReconnectingConnection, wakeups: WakeupListener) -> None:
        self._connection = connection
        self._wakeups = wakeups
        self._worker_change: int | None = None

    async def run_once(self) -> dict[str, int]:
        work = await self._connection.run(keeper_background_work)
        steps = self._steps_for(work)
        self._worker_change = work.worker_change
        self._wakeups.wake(*steps)
        return dict.fromkeys(steps, 1)

    def _steps_for(self, work: BackgroundWork) -> list[str]:
        wanted = {
            "grouper": work.has_failures,
            "bulk_changes": work.has_bulk_changes,
            "eraser": work.has_erasures,
            "sampler": work.has_minute,
            "alerter": work.has_failures or work.has_alerts or work.worker_change != self._worker_change,
        }
        return [name for name, is_wanted in wanted.items() if is_wanted]

    def pause(self) -> float:
        return BACKGROUND_SECONDS
