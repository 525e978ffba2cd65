"""A worker, assembled from its components."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

from posthouse.core.capabilities import capability_words, checked_facts, checked_worker_name
from posthouse.core.outcome import Cancel
from posthouse.errors import ConfigurationError, LeaseLost
from posthouse.settings import Settings
from posthouse.storage.database import retry_startup
from posthouse.waiting import end_tasks, finish_within
from posthouse.worker.attempt import Attempt
from posthouse.worker.backend import Backend, LeaseStore, NotificationCallbacks
from posthouse.worker.batches import Batches
from posthouse.worker.completer import Completer
from posthouse.worker.definitions import DefinitionWatcher
from posthouse.worker.executor import DEADLINE_CHECK_INTERVAL_SECONDS, STOP_GRACE, Executor
from posthouse.worker.fetcher import Fetcher
from posthouse.worker.handlers import PROCESS, JobDefinition, code_version
from posthouse.worker.heartbeat import Heartbeat, install_interrupt
from posthouse.worker.observers import ObservedCompleter, ObservedExecutor, ObservedFetcher, observed
from posthouse.worker.outcomes import LeaseExpired, Released
from posthouse.worker.runners.commands import CommandJobs
from posthouse.worker.runners.process.pool import ProcessPool
from posthouse.worker.services import WorkerJobServices
from posthouse.worker.status import SharedStatus

_log = logging.getLogger("posthouse.worker")
_T = TypeVar("_T")

STOP_SECONDS = 4.0
"""Maximum time for stopping after the drain. The process must end within 5 s of the drain, regardless of
handlers and the database.
"""
CLOSE_SECONDS = 1.0
"""Part of ``STOP_SECONDS`` that is reserved for closing the connections."""
HEARTBEAT_SECONDS = 1.0
"""How long a stopping worker waits for its heartbeat thread, which may be connecting. The thread is a daemon,
so it cannot keep the process alive.
"""
LIVENESS_GRACE_SECONDS = 0.5
"""How long a worker tries to restore its liveness lock. Keepers may rescue its jobs 1 s after the loss."""


class Consumer(NamedTuple):
    """The executor, fetcher and lease store of one group of jobs. The jobs of a group share slots."""

    executor: Executor
    fetcher: Fetcher
    leases: LeaseStore


class Worker:
    """A worker: runs the jobs of a set of definitions until it is stopped."""

    def __init__(
        self,
        definitions: Mapping[str, JobDefinition],
        connect: Callable[[UUID], Backend],
        settings: Settings,
        *,
        queues: Sequence[str] = (),
        status: SharedStatus | None = None,
    ) -> None:
        self.id: UUID = uuid4()
        self.backend = connect(self.id)
        self.name = checked_worker_name(settings.worker_name) or f"{socket.gethostname()}:{os.getpid()}"
        self.metadata = checked_facts(settings.worker_metadata)
        self.settings = settings
        self._status = status
        self.definitions = dict(definitions)  # commands are added while the worker runs
        self._handlers = dict(definitions)
        self._configured_queues = sorted(set(queues))
        self.queues = self._configured_queues or sorted({item.queue for item in definitions.values()})
        self.capabilities = capability_words(settings.capabilities)
        self.loop = asyncio.get_running_loop()
        self.leases = self.backend.leases()
        self.definition_watcher = DefinitionWatcher(self.definitions, self.leases)
        self.definition_watcher.on_reload = self._refresh_commands
        self.services = WorkerJobServices(self.backend, settings, self.definition_watcher)
        self._observers = observed()
        self.completer = self._make_completer()
        self.failed: asyncio.Event = asyncio.Event()
        """Set when a background task failed. The process must stop."""
        self.drained: asyncio.Event = asyncio.Event()
        """Set when a drain requested by an operator has finished. The process must stop the worker."""
        self._draining: asyncio.Task[None] | None = None
        self._leased: dict[str, Attempt] = {}
        self._has_leases = asyncio.Event()
        self._liveness_changed = asyncio.Event()
        self._subscribed_queues = set(self.queues)
        self._subscription = (self.queues, sorted(definitions))
        self.commands = (
            CommandJobs(self.definition_watcher, self.definitions, settings) if settings.commands else None
        )
        self._consumers = self._build_consumers()
        self.executor, self.fetcher = self._consumers[0].executor, self._consumers[0].fetcher
        self.heartbeat = Heartbeat(
            self.backend.pulse,
            self._leased,
            self.loop,
            on_lease_status=self._on_lease_status,
            on_drain=self._on_drain,
            on_liveness_change=self._liveness_changed.set,
            heartbeat_seconds=settings.heartbeat_seconds,
            lease_seconds=settings.lease_seconds,
        )
        for consumer in self._consumers:
            consumer.fetcher.on_missed_cancellation = self.heartbeat.beat_now
        self.listener = self.backend.listener(
            self._subscribed_queues,
            NotificationCallbacks(
                work=self._wake,
                cancel=self._check_cancellations,
                listening=self._on_listening,
                definitions=self.definition_watcher.invalidate,
            ),
        )
        self.definition_watcher.is_notified = lambda: self.listener.listening
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching: list[asyncio.Task[None]] = []
        self._release_requested = asyncio.Event()
        self._registered = False
        if not definitions and self.commands is None:
            raise ConfigurationError(
                "this worker has no job kinds to run: define one with @app.job, or enable commands"
            )

    def _build_consumers(self) -> list[Consumer]:
        """Create one consumer each for handlers in this process, process handlers and commands.

        Each consumer has its own slots, claims and prefetch queue, so that no group waits for another and
        each claims only as many jobs as can start soon.
        """
        apart = {kind: item for kind, item in self._handlers.items() if item.runner == PROCESS}
        here = sorted(self._handlers.keys() - apart.keys())
        self.processes = (
            ProcessPool(apart.values(), self.backend.process_url, self.settings, self.services)
            if apart
            else None
        )
        consumers = []
        if here or not (apart or self.commands):
            executor = self._make_executor(self.settings.concurrency, None)
            consumers.append(Consumer(executor, self._make_fetcher(self.leases, executor, here), self.leases))
        if self.processes is not None:
            executor = self._make_executor(0, self.processes)
            self.processes.on_resize = executor.resize
            self.processes.on_unrecoverable = self.failed.set
            leases = self.backend.leases() if consumers else self.leases
            consumers.append(Consumer(executor, self._make_fetcher(leases, executor, sorted(apart)), leases))
        if self.commands is not None:
            executor = self._make_executor(self.commands.slots, self.commands)
            leases = self.backend.leases() if consumers else self.leases
            consumers.append(Consumer(executor, self._make_fetcher(leases, executor, []), leases))
        return consumers

    def _make_executor(self, concurrency: int, processes: ProcessPool | CommandJobs | None) -> Executor:
        made, more = self._observable(Executor, ObservedExecutor)
        return made(
            self.definitions,
            self.completer,
            self.definition_watcher,
            concurrency=concurrency,
            result_limit=self.settings.max_result_bytes,
            cancel_grace=self.settings.cancel_grace_seconds,
            crash_limit=self.settings.crash_limit,
            leased=self._leased,
            has_leases=self._has_leases,
            processes=processes,
            status=self._status,
            address=self.settings.job_address,
            **more,
        )

    def _make_completer(self) -> Completer:
        made, more = self._observable(Completer, ObservedCompleter)
        return made(self.leases, self._on_lost, **more)

    def _observable(self, plain: type[_T], observed: type[_T]) -> tuple[type[_T], dict[str, Any]]:
        """Return the observable variant of a component if there are observers."""
        return (plain, {}) if self._observers is None else (observed, {"observers": self._observers})

    def _make_fetcher(self, leases: LeaseStore, executor: Executor, kinds: Sequence[str]) -> Fetcher:
        made, more = self._observable(Fetcher, ObservedFetcher)
        batches = Batches(
            (self._handlers[kind] for kind in kinds),
            executor.open_batches,
            linger=self.settings.batch_linger_seconds,
            poll_seconds=self.settings.poll_seconds,
        )
        return made(
            leases,
            executor,
            self.services,
            queues=self.queues,
            kinds=[kind for kind in kinds if kind not in batches],
            batches=batches,
            capabilities=self.capabilities,
            poll_seconds=self.settings.poll_seconds,
            preference_wait=2 * self.settings.heartbeat_seconds,
            **more,
        )

    def _wake(self) -> None:
        for consumer in self._consumers:
            consumer.fetcher.wake()

    def _check_cancellations(self) -> None:
        for consumer in self._consumers:
            consumer.fetcher.note_cancellation()
        self.heartbeat.beat_now()

    def _on_listening(self) -> None:
        for consumer in self._consumers:
            consumer.fetcher.on_listening()

    async def _refresh_commands(self) -> None:
        """Serve the current commands, in their own queues unless the worker was configured with queues."""
        if self.commands is None:
            return
        kinds_of_commands = self.commands.refresh(self._handlers)
        if kinds_of_commands:
            self.commands.start()
        kinds = sorted({*self._handlers, *kinds_of_commands})
        self.queues = self._configured_queues or sorted({self.definitions[kind].queue for kind in kinds})
        if self._subscription == (self.queues, kinds):
            return
        for consumer in self._consumers[:-1]:
            consumer.fetcher.set_subscription(self.queues)
        self._consumers[-1].fetcher.set_subscription(self.queues, kinds_of_commands)
        self._subscribed_queues.clear()
        self._subscribed_queues.update(self.queues)
        await self.leases.update_subscription(self.queues, kinds)
        self._subscription = (self.queues, kinds)

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            if self._registered:
                await _with_timeout(2, self.leases.deregister())
            await self._close_connections()
            raise

    async def _start(self) -> None:
        if self.processes is not None:
            await self.processes.start()
        readers = await self.backend.dispatch([consumer.fetcher for consumer in self._consumers])
        await retry_startup("register the worker", self._announce)
        await retry_startup("read definitions", self._read_definitions)
        self.heartbeat.can_interrupt = install_interrupt(self.loop, self._leased)
        self.heartbeat.start()
        for consumer in self._consumers:
            self._fetching.append(self.loop.create_task(self._guarded(consumer.fetcher.run)))
        self._tasks.extend(self._fetching)
        own = (
            self.completer.run,
            self.executor.enforce_deadlines,
            self.definition_watcher.run,
            self._listen,
            self._watch_liveness,
        )
        for part in (*own, *self.services.tasks, *(reader.run for reader in readers)):
            self._tasks.append(self.loop.create_task(self._guarded(part)))

    async def _read_definitions(self) -> None:
        await self.definition_watcher.reload()
        await self._refresh_commands()

    async def _announce(self) -> None:
        self._registered = True  # also if canceled below: the registration may have been committed
        try:
            await self._register()
        except Exception:
            self._registered = False
            raise

    async def _register(self) -> None:
        left_out = await self.leases.register(
            {
                "name": self.name,
                "hostname": socket.gethostname(),
                "pid": os.getpid(),
                "version": version("posthouse"),
                "code": code_version(self._handlers.values()),
                "queues": self.queues,
                "kinds": sorted(self._handlers),
                "concurrency": self.settings.concurrency
                if self._handlers or self.commands is None
                else self.commands.slots,
                "capability_details": dict.fromkeys(self.capabilities, True),
                "capabilities": self.capabilities,
                "metadata": self._registration_metadata(),
                "heartbeat_seconds": self.settings.heartbeat_seconds,
                "lease_seconds": self.settings.lease_seconds,
            },
            [item.announcement() for item in self._handlers.values()],
            [limit.announcement(item.kind) for item in self._handlers.values() for limit in item.limits],
            [trigger for item in self._handlers.values() for trigger in item.triggers],
        )
        for kind, reason in left_out.items():
            _log.warning("definition not announced kind=%s: %s", kind, reason)
        self.executor.lease_grace = self.leases.grace_seconds

    def _registration_metadata(self) -> dict[str, Any]:
        processes = {} if self.processes is None else {"processes": len(self.processes.pids)}
        return {**self.metadata, **processes}

    async def _guarded(self, part: Callable[[], Awaitable[None]]) -> None:
        try:
            await part()
        except Exception:  # noqa: BLE001 - logged; the worker stops
            _log.exception("worker component failed, shutting down component=%s", part.__qualname__)
            self.failed.set()

    async def _watch_liveness(self) -> None:
        """Release all jobs when the liveness lock stays lost, before a keeper rescues them."""
        while True:
            await self._liveness_changed.wait()
            self._liveness_changed.clear()
            while (since := self._update_suspension()) is not None:
                if time.monotonic() > since + LIVENESS_GRACE_SECONDS:
                    self.executor.interrupt_all(LeaseExpired())
                await asyncio.sleep(DEADLINE_CHECK_INTERVAL_SECONDS)

    def _update_suspension(self) -> float | None:
        since = self.heartbeat.liveness_lost_at
        for consumer in self._consumers:
            consumer.fetcher.is_suspended = since is not None
        return since

    async def _listen(self) -> None:
        await self.listener.run()
        for consumer in self._consumers:
            consumer.fetcher.can_receive_wakeups = False  # behind a pooler: polling continues

    @property
    def finished(self) -> int:
        """The number of jobs that this worker has run."""
        return sum(consumer.executor.finished for consumer in self._consumers)

    @property
    def next_deadline(self) -> float:
        """When the first of the running jobs exceeds its timeout, by the monotonic clock."""
        leased = list(self._leased.values())
        return min((attempt.deadline for attempt in leased if attempt.deadline is not None), default=math.inf)

    def release_jobs(self) -> None:
        """End the drain of stop() now, and release the jobs that are still running."""
        self._release_requested.set()

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Drain and stop the worker.

        The worker claims no more jobs and releases those that have not started. Running jobs are stopped
        after ``drain_seconds``.
        """
        limit = self.settings.drain_seconds if drain_seconds is None else drain_seconds
        ends_at = time.monotonic() + limit + STOP_SECONDS
        for consumer in self._consumers:
            consumer.fetcher.is_stopping = True
            consumer.fetcher.wake()
            consumer.executor.signal_capacity()
            consumer.executor.drain()
        if not await self._idle_within(limit):
            self.executor.interrupt_all(Released())
            await _with_timeout(STOP_GRACE + 0.2, self._idle())
        if self._fetching:
            # A claim under way is completed, so that its jobs can be released.
            await asyncio.wait(self._fetching, timeout=min(5, _left(ends_at)))
        await _with_timeout(min(10, _left(ends_at)), self.completer.drain())
        await _with_timeout(_left(ends_at - CLOSE_SECONDS) + CLOSE_SECONDS, self._close(ends_at))

    async def _idle_within(self, limit: float) -> bool:
        idle = asyncio.ensure_future(self._idle())
        release = asyncio.ensure_future(self._release_requested.wait())
        both: set[asyncio.Future[Any]] = {idle, release}
        done, _ = await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for waiting in both:
            waiting.cancel()
        return idle in done

    async def _idle(self) -> None:
        """Wait until nothing runs."""
        for consumer in self._consumers:
            await consumer.executor.wait_until_idle()

    async def _close(self, ends_at: float) -> None:
        self.heartbeat.stop()
        await end_tasks(self._tasks)
        await asyncio.to_thread(self.heartbeat.join, HEARTBEAT_SECONDS)
        # A worker that did not sign off is reported as lost: a slow database gets what is left of the drain.
        await _with_timeout(min(10, max(2, _left(ends_at))), self.leases.deregister())
        await self._close_connections()

    async def _close_connections(self) -> None:
        for consumer in self._consumers:
            await consumer.leases.close()
            consumer.executor.close()
        await self.services.close()
        await self.backend.close()
        if self.processes is not None:
            await self.processes.stop()
        if self.commands is not None:
            await self.commands.stop()

    def _on_lost(self, job_id: UUID) -> None:
        _log.warning("lease lost before the outcome was written job=%s", job_id)

    def _on_drain(self) -> None:
        """Handle a drain request of an operator: later claims return nothing, and running jobs may finish."""
        if self._draining is None:
            _log.info("drain requested by operator worker=%s", self.name)
            self._draining = self.loop.create_task(self._guarded(self._finish_drain))
            self._tasks.append(self._draining)

    async def _finish_drain(self) -> None:
        await self._idle()
        self.drained.set()

    def _on_lease_status(self, attempt: Attempt, verdict: str) -> None:
        if attempt.is_finished:  # its handler has committed the job and is still running
            return
        if verdict == "lost" and not attempt.is_committing:
            self.executor.interrupt(attempt, LeaseLost())
        elif verdict == "cancel":
            attempt.is_cancel_requested = True
            self.executor.interrupt(attempt, Cancel("canceled while running"))


def _left(ends_at: float) -> float:
    """Return the seconds until ``ends_at``, less ``CLOSE_SECONDS``."""
    return max(0.0, ends_at - CLOSE_SECONDS - time.monotonic())


async def _with_timeout(seconds: float, work: Awaitable[Any]) -> None:
    try:
        if not await finish_within(seconds, work):
            _log.warning("shutdown step did not finish within %.1f s", seconds)
    except Exception as error:  # noqa: BLE001 - during shutdown nothing else can be done
        _log.warning("shutdown step failed: %s: %s", type(error).__name__, error)
