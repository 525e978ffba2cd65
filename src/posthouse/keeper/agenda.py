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
from posthouse.storage.maintenance import PatientWork, UrgentWork, patient_work, urgent_work

URGENT_SECONDS = 0.4
PATIENT_SECONDS = 2.0
LONGEST_SECONDS = 2.0
SHARE = 20
"""The pause after a poll, as a multiple of the poll's duration: while a transaction pins the horizon, a poll
reads the dead rows of all finished jobs.
"""
SOON = 1.5
"""A step is woken if its work is due within this many pauses, because the next poll may be late."""


class UrgentAgenda:
    """The poll for due jobs, events, due schedules, and workers that were lost or returned."""

    name = "urgent_agenda"

    def __init__(
        self,
        line: ReconnectingConnection,
        settings: Settings,
        bells: WakeupListener,
        *,
        crowd: PollPacer,
        lookout: OutageDetector,
        promoter: Promoter,
        rescuer: Rescuer,
    ) -> None:
        self._line = line
        self._settings = settings
        self._bells = bells
        self._crowd = crowd
        self._lookout = lookout
        self._promoter = promoter
        self._rescuer = rescuer
        self._pause = URGENT_SECONDS

    async def run_once(self) -> dict[str, int]:
        started = time.monotonic()
        try:
            work = await self._line.run(
                lambda c: urgent_work(c, self._promoter.swept, self._settings.offline_after)
            )
        except psycopg.OperationalError:
            self._lookout.cut_off()
            self._bells.ring("watch")  # its connection may be broken too, and it should notice that now
            raise
        self._pause = min(LONGEST_SECONDS, max(URGENT_SECONDS, SHARE * (time.monotonic() - started)))
        self._crowd.count(work.workers)
        self._lookout.see(work.now)
        self._rescuer.has_leases = work.has_leases
        steps = self._steps_for(work)
        self._bells.ring(*steps)
        return dict.fromkeys(steps, 1)

    def _steps_for(self, work: UrgentWork) -> list[str]:
        soon = SOON * self._pause * self._crowd.patience
        asked = {
            "promoter": work.has_edges or (work.due_in is not None and work.due_in <= soon),
            "watch": work.workers_changed,
            "rescuer": work.has_leases and self._rescuer.is_due,
            "matcher": work.has_events,
            "scheduler": work.schedule_in is not None and work.schedule_in <= soon,
        }
        return [name for name, is_asked in asked.items() if is_asked]

    def pause(self) -> float:
        return self._pause


class PatientAgenda:
    """The poll for failures, bulk changes, erasures, minutes to sample, and alerts."""

    name = "patient_agenda"

    def __init__(self, line: ReconnectingConnection, bells: WakeupListener) -> None:
        self._line = line
        self._bells = bells
        self._worker_change: int | None = None

    async def run_once(self) -> dict[str, int]:
        work = await self._line.run(patient_work)
        steps = self._steps_for(work)
        self._worker_change = work.worker_change
        self._bells.ring(*steps)
        return dict.fromkeys(steps, 1)

    def _steps_for(self, work: PatientWork) -> list[str]:
        asked = {
            "grouper": work.has_failures,
            "retrier": work.has_bulk_changes,
            "eraser": work.has_erasures,
            "sampler": work.has_minute,
            "alerter": work.has_failures or work.has_alerts or work.worker_change != self._worker_change,
        }
        return [name for name, is_asked in asked.items() if is_asked]

    def pause(self) -> float:
        return PATIENT_SECONDS
