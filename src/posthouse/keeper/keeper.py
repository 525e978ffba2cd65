"""The keeper: runs each step in its own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from posthouse.dispatch import Relay, redis_of
from posthouse.keeper.agenda import BackgroundAgenda, UrgentAgenda
from posthouse.keeper.alerter import Alerter
from posthouse.keeper.jobs import Adopter, BulkChangeRunner, Eraser, Expirer, LaneCleaner, Promoter
from posthouse.keeper.liveness import OutageDetector, Rescuer, WorkerMonitor
from posthouse.keeper.retention import RetentionService
from posthouse.keeper.service import KeeperStep, PollPacer, WakeupListener, run_service
from posthouse.keeper.stats import FailureGrouper, Sampler
from posthouse.keeper.triggers import Matcher, Scheduler
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.waiting import end_tasks

DEFERRED_START_SECONDS = 1.0


class Keeper:
    def __init__(self, url: str, settings: Settings, extra_steps: Sequence[KeeperStep] = ()) -> None:
        """Create the steps. ``extra_steps`` are additional steps to run."""
        # Steps with the same connection wait for each other. Retention can be slow, so it has its own.
        jobs, liveness, stats = (ReconnectingConnection(url, "keeper") for _ in range(3))
        retention = ReconnectingConnection(url, "retention")
        self._connections = [jobs, liveness, stats, retention]
        self._pacer = PollPacer()
        self._wakeups = wakeups = WakeupListener(
            settings.direct_url or url, {"posthouse:events": "matcher", "posthouse:triggers": "scheduler"}
        )
        outage_detector = OutageDetector(
            settings.rescue_grace_seconds,
            lambda: 2 * self.urgent_agenda.pause() * self._pacer.interval_factor,
        )
        self.promoter = Promoter(jobs)
        self.rescuer = Rescuer(liveness, settings, outage_detector, lambda: wakeups.wake("promoter"))
        self.worker_monitor = WorkerMonitor(
            liveness, settings, outage_detector, lambda: wakeups.wake("rescuer")
        )
        self.retention = RetentionService(retention, settings)
        self.lanes = LaneCleaner(liveness)
        self.adopter = Adopter(stats)
        self.expirer = Expirer(stats, settings)
        self.matcher = Matcher(jobs, settings)
        self.sampler = Sampler(stats, settings)
        self.grouper = FailureGrouper(stats, settings)
        self.bulk_changes = BulkChangeRunner(stats)
        self.eraser = Eraser(stats)
        self.alerter = Alerter(stats, settings)
        self.scheduler = Scheduler(jobs, settings, self._pacer)
        self.urgent_agenda = UrgentAgenda(
            jobs,
            settings,
            wakeups,
            pacer=self._pacer,
            outage_detector=outage_detector,
            promoter=self.promoter,
            rescuer=self.rescuer,
        )
        self.background_agenda = BackgroundAgenda(stats, wakeups)
        self._extra_steps = tuple(extra_steps)
        redis = redis_of(settings)
        self.relay = None if redis is None else Relay(url, settings, redis)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def steps(self) -> tuple[KeeperStep, ...]:
        return (*self._immediate, *self._deferred)

    @property
    def _immediate(self) -> tuple[KeeperStep, ...]:
        return (
            self.promoter,
            self.worker_monitor,
            self.rescuer,
            self.matcher,
            self.scheduler,
            self.lanes,
            self.retention,  # without its partitions, finished jobs go to the default partition
        )

    @property
    def _deferred(self) -> tuple[KeeperStep, ...]:
        """The steps that may start after a starting worker has claimed its first jobs."""
        return (
            self.adopter,
            self.expirer,
            self.grouper,
            self.bulk_changes,
            self.eraser,
            self.sampler,
            self.alerter,
            *self._extra_steps,
        )

    async def start(self) -> None:
        if self.relay is not None:
            await self.relay.open()
            self._tasks.append(asyncio.create_task(self.relay.run()))
        for step in (self.urgent_agenda, *self._immediate):
            self._start(step, after=0.0)
        for step in (self.background_agenda, *self._deferred):
            self._start(step, after=DEFERRED_START_SECONDS)
        self._tasks.append(asyncio.create_task(self._wakeups.run()))

    def _start(self, step: KeeperStep, *, after: float) -> None:
        loop = run_service(step, self._pacer, self._wakeups.event_for(step.name), after=after)
        self._tasks.append(asyncio.create_task(loop))

    async def run_once(self) -> dict[str, dict[str, int]]:
        return {step.name: await step.run_once() for step in self.steps}

    async def stop(self) -> None:
        await end_tasks(self._tasks)
        for connection in self._connections:
            await connection.close()
        if self.relay is not None:
            await self.relay.close()
