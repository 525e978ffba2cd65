"""The keeper: runs each step in its own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from posthouse.dispatch import Relay, redis_of
from posthouse.keeper.agenda import PatientAgenda, UrgentAgenda
from posthouse.keeper.alerter import Alerter
from posthouse.keeper.jobs import Adopter, BulkChangeRunner, Eraser, Expirer, LaneCleaner, Promoter
from posthouse.keeper.liveness import OutageDetector, Rescuer, WorkerMonitor
from posthouse.keeper.retention import RetentionService
from posthouse.keeper.service import PollPacer, Step, WakeupListener, run_service
from posthouse.keeper.stats import FailureGrouper, Sampler
from posthouse.keeper.triggers import Matcher, Scheduler
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.waiting import end_tasks

PATIENT_SECONDS = 1.0


class Keeper:
    def __init__(self, url: str, settings: Settings, more: Sequence[Step] = ()) -> None:
        """Create the steps. ``more`` are additional steps to run."""
        making, guarding, counting = (ReconnectingConnection(url, "keeper") for _ in range(3))
        # Retention can be slow, so it has its own connection: no other step waits for it.
        retaining = ReconnectingConnection(url, "retainer")
        self._lines = [making, guarding, counting, retaining]
        self._crowd = PollPacer()
        self._bells = bells = WakeupListener(
            settings.direct_url or url, {"posthouse:events": "matcher", "posthouse:triggers": "scheduler"}
        )
        lookout = OutageDetector(
            settings.rescue_grace_seconds, lambda: 2 * self.urgent_agenda.pause() * self._crowd.patience
        )
        self.promoter = Promoter(making)
        self.rescuer = Rescuer(guarding, settings, lookout, lambda: bells.ring("promoter"))
        self.watch = WorkerMonitor(guarding, settings, lookout, lambda: bells.ring("rescuer"))
        self.retainer = RetentionService(retaining, settings)
        self.lanes = LaneCleaner(guarding)
        self.adopter = Adopter(counting)
        self.expirer = Expirer(counting, settings)
        self.matcher = Matcher(making, settings)
        self.sampler = Sampler(counting, settings)
        self.grouper = FailureGrouper(counting, settings)
        self.retrier = BulkChangeRunner(counting)
        self.eraser = Eraser(counting)
        self.alerter = Alerter(counting, settings)
        self.scheduler = Scheduler(making, settings, self._crowd)
        self.urgent_agenda = UrgentAgenda(
            making,
            settings,
            bells,
            crowd=self._crowd,
            lookout=lookout,
            promoter=self.promoter,
            rescuer=self.rescuer,
        )
        self.patient_agenda = PatientAgenda(counting, bells)
        self._more = tuple(more)
        redis = redis_of(settings)
        self.relay = None if redis is None else Relay(url, settings, redis)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self._urgent, *self._patient)

    @property
    def _urgent(self) -> tuple[Step, ...]:
        return (
            self.promoter,
            self.watch,
            self.rescuer,
            self.matcher,
            self.scheduler,
            self.lanes,
            self.retainer,  # without its partitions, finished jobs go to the default partition
        )

    @property
    def _patient(self) -> tuple[Step, ...]:
        """The steps that may start after a starting worker has claimed its first jobs."""
        return (
            self.adopter,
            self.expirer,
            self.grouper,
            self.retrier,
            self.eraser,
            self.sampler,
            self.alerter,
            *self._more,
        )

    async def start(self) -> None:
        if self.relay is not None:
            await self.relay.open()
            self._tasks.append(asyncio.create_task(self.relay.run()))
        for step in (self.urgent_agenda, *self._urgent):
            self._start(step, after=0.0)
        for step in (self.patient_agenda, *self._patient):
            self._start(step, after=PATIENT_SECONDS)
        self._tasks.append(asyncio.create_task(self._bells.run()))

    def _start(self, step: Step, *, after: float) -> None:
        loop = run_service(step, self._crowd, self._bells.of(step.name), after=after)
        self._tasks.append(asyncio.create_task(loop))

    async def run_once(self) -> dict[str, dict[str, int]]:
        return {step.name: await step.run_once() for step in self.steps}

    async def stop(self) -> None:
        await end_tasks(self._tasks)
        for line in self._lines:
            await line.close()
        if self.relay is not None:
            await self.relay.close()
