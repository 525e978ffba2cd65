"""A worker: the parts put together."""

from __future__ import annotations

import asyncio
import logging
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
from posthouse.worker.backend import Backend, Hearing, Leases
from posthouse.worker.commands import Commands
from posthouse.worker.completer import Completer
from posthouse.worker.definition import PROCESS, Definition
from posthouse.worker.desk import WorkerDesk
from posthouse.worker.executor import WATCH_SECONDS, CutOff, Executor, Released
from posthouse.worker.fetcher import Fetcher
from posthouse.worker.heartbeat import Heartbeat, install_interrupt
from posthouse.worker.job import Job
from posthouse.worker.observing import ObservedCompleter, ObservedExecutor, ObservedFetcher, observed
from posthouse.worker.processes.pool import Pool
from posthouse.worker.rulebook import Rulebook

_log = logging.getLogger("posthouse.worker")
_T = TypeVar("_T")

ALONE_SECONDS = 0.5
"""How long a worker tries to be seen again. A second after it was last seen, its jobs may be given away."""


class Crew(NamedTuple):
    """Jobs that share slots, and what brings them there."""

    executor: Executor
    fetcher: Fetcher
    leases: Leases


class Worker:
    """Runs the jobs of some definitions until it is stopped."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        connect: Callable[[UUID], Backend],
        settings: Settings,
        *,
        queues: Sequence[str] = (),
    ) -> None:
        self.id: UUID = uuid4()
        self.backend = connect(self.id)
        self.name = checked_worker_name(settings.worker_name) or f"{socket.gethostname()}:{os.getpid()}"
        self.metadata = checked_facts(settings.worker_metadata)
        self.settings = settings
        self.definitions = dict(definitions)  # commands are added while it runs
        self._handlers = dict(definitions)
        self._chosen = sorted(set(queues))
        self.queues = self._chosen or sorted({item.queue for item in definitions.values()})
        self.offers = capability_words(settings.capabilities)
        self.loop = asyncio.get_running_loop()
        self.leases = self.backend.leases()
        self.rulebook = Rulebook(self.definitions, self.leases)
        self.rulebook.on_read = self._serve_commands
        self.desk = WorkerDesk(self.backend, settings, self.rulebook)
        self._observers = observed()
        self.completer = self._make_completer()
        self.failed: asyncio.Event = asyncio.Event()
        """Set when a part of the worker broke: it must not live on and only look alive."""
        self.dismissed: asyncio.Event = asyncio.Event()
        """Set when an operator asked for a drain and the work is done: whoever runs the worker stops it."""
        self._draining: asyncio.Task[None] | None = None
        self._held: dict[str, Job] = {}
        self._heard = set(self.queues)
        self._serving = (self.queues, sorted(definitions))
        self.commands = Commands(self.rulebook, self.definitions, settings) if settings.commands else None
        self._crews = self._make_crews()
        self.executor, self.fetcher = self._crews[0].executor, self._crews[0].fetcher
        self.heartbeat = Heartbeat(
            self.backend.pulse,
            self._held,
            self.loop,
            on_verdict=self._on_verdict,
            on_drain=self._on_drain,
            heartbeat_seconds=settings.heartbeat_seconds,
            lease_seconds=settings.lease_seconds,
        )
        self.listener = self.backend.listener(
            self._heard,
            Hearing(
                work=self._wake,
                cancel=self.heartbeat.beat_now,
                listening=self._can_hear,
                definitions=self.rulebook.look_again,
            ),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching: list[asyncio.Task[None]] = []
        self._hurry = asyncio.Event()
        if not definitions and self.commands is None:
            raise ConfigurationError(
                "this worker knows no jobs: register some with @app.job, or let it run commands"
            )

    def _make_crews(self) -> list[Crew]:
        """Handlers in processes, and commands, have slots, claims and a line of their own: none waits for the
        others, and of each no more is claimed than can start soon.
        """
        apart = {kind: item for kind, item in self._handlers.items() if item.runner == PROCESS}
        here = sorted(self._handlers.keys() - apart.keys())
        self.processes = (
            Pool(apart.values(), self.backend.process_url, self.settings, self.desk) if apart else None
        )
        crews = []
        if here or not (apart or self.commands):
            executor = self._make_executor(self.settings.concurrency, None)
            crews.append(Crew(executor, self._make_fetcher(self.leases, executor, here), self.leases))
        if self.processes is not None:
            executor = self._make_executor(0, self.processes)
            self.processes.on_size = executor.resize
            self.processes.on_broken = self.failed.set
            leases = self.backend.leases() if crews else self.leases
            crews.append(Crew(executor, self._make_fetcher(leases, executor, sorted(apart)), leases))
        if self.commands is not None:
            executor = self._make_executor(self.commands.slots, self.commands)
            leases = self.backend.leases() if crews else self.leases
            crews.append(Crew(executor, self._make_fetcher(leases, executor, []), leases))
        return crews

    def _make_executor(self, concurrency: int, processes: Pool | Commands | None) -> Executor:
        made, more = self._observable(Executor, ObservedExecutor)
        return made(
            self.definitions,
            self.completer,
            self.rulebook,
            concurrency=concurrency,
            result_limit=self.settings.max_result_bytes,
            cancel_grace=self.settings.cancel_grace_seconds,
            crash_limit=self.settings.crash_limit,
            held=self._held,
            processes=processes,
            **more,
        )

    def _make_completer(self) -> Completer:
        made, more = self._observable(Completer, ObservedCompleter)
        return made(self.leases, self._on_lost, **more)

    def _observable(self, plain: type[_T], observed: type[_T]) -> tuple[type[_T], dict[str, Any]]:
        """The part that lets others look on, if anybody does."""
        return (plain, {}) if self._observers is None else (observed, {"observers": self._observers})

    def _make_fetcher(self, leases: Leases, executor: Executor, kinds: Sequence[str]) -> Fetcher:
        made, more = self._observable(Fetcher, ObservedFetcher)
        return made(
            leases,
            executor,
            self.desk,
            queues=self.queues,
            kinds=kinds,
            offers=self.offers,
            poll_seconds=self.settings.poll_seconds,
            patience=2 * self.settings.heartbeat_seconds,
            **more,
        )

    def _wake(self) -> None:
        for crew in self._crews:
            crew.fetcher.wake()

    def _can_hear(self) -> None:
        for crew in self._crews:
            crew.fetcher.can_hear()

    async def _serve_commands(self) -> None:
        """Serves the commands that there are now, in their queues unless some were chosen."""
        if self.commands is None:
            return
        adopted = self.commands.adopt(self._handlers)
        if adopted:
            self.commands.start()
        kinds = sorted({*self._handlers, *adopted})
        self.queues = self._chosen or sorted({self.definitions[kind].queue for kind in kinds})
        if self._serving == (self.queues, kinds):
            return
        for crew in self._crews[:-1]:
            crew.fetcher.serve(self.queues)
        self._crews[-1].fetcher.serve(self.queues, adopted)
        self._heard.clear()
        self._heard.update(self.queues)
        await self.leases.serve(self.queues, kinds)
        self._serving = (self.queues, kinds)

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            if self.processes is not None:
                await self.processes.stop()
            raise

    async def _start(self) -> None:
        if self.processes is not None:
            await self.processes.start()
        await self.leases.announce(
            {
                "name": self.name,
                "hostname": socket.gethostname(),
                "pid": os.getpid(),
                "version": version("posthouse"),
                "queues": self.queues,
                "kinds": sorted(self._handlers),
                "concurrency": self.settings.concurrency
                if self._handlers or self.commands is None
                else self.commands.slots,
                "capabilities": dict.fromkeys(self.offers, True),
                "offers": self.offers,
                "metadata": self._facts(),
            },
            [item.announcement() for item in self._handlers.values()],
            [limit.announcement(item.kind) for item in self._handlers.values() for limit in item.limits],
            [trigger for item in self._handlers.values() for trigger in item.triggers],
        )
        await self.rulebook.reread()
        await self._serve_commands()
        self.heartbeat.can_interrupt = install_interrupt(self.loop, self._held)
        self.heartbeat.start()
        for crew in self._crews:
            self._fetching.append(self.loop.create_task(self._guarded(crew.fetcher.run)))
        self._tasks.extend(self._fetching)
        own = (
            self.completer.run,
            self.executor.watch,
            self.rulebook.run,
            self._listen,
            self._watch_sight,
        )
        for part in (*own, *self.desk.parts):
            self._tasks.append(self.loop.create_task(self._guarded(part)))

    def _facts(self) -> dict[str, Any]:
        processes = {} if self.processes is None else {"processes": len(self.processes.pids)}
        return {**self.metadata, **processes}

    async def _guarded(self, part: Callable[[], Awaitable[None]]) -> None:
        try:
            await part()
        except Exception:  # noqa: BLE001 - whatever it was, it is logged
            _log.exception("a part of the worker failed: it stops")
            self.failed.set()

    async def _watch_sight(self) -> None:
        """Lets go of all work when nobody can see that we live, before others take it for lost."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            since = self.heartbeat.alone_since
            for crew in self._crews:
                crew.fetcher.held_back = since is not None
            if since is not None and time.monotonic() > since + ALONE_SECONDS:
                self.executor.end_all(CutOff())

    async def _listen(self) -> None:
        await self.listener.run()
        for crew in self._crews:
            crew.fetcher.can_be_woken = False  # behind a pooler: polling carries on

    def hurry(self) -> None:
        """Cuts the drain of stop() short."""
        self._hurry.set()

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Drains: no new claims, unstarted jobs go back at once, running ones after a grace."""
        limit = self.settings.drain_seconds if drain_seconds is None else drain_seconds
        for crew in self._crews:
            crew.fetcher.stopping = True
            crew.fetcher.wake()
            crew.executor.on_room()
            crew.executor.drain()
        if not await self._idle_within(limit):
            self.executor.end_all(Released())
            await _within(self.settings.cancel_grace_seconds + 1, self._idle())
        if self._fetching:
            # A claim under way is let through, so that what it takes can be given back.
            await asyncio.wait(self._fetching, timeout=5)
        await _within(10, self.completer.drain())
        await self._close()

    async def _idle_within(self, limit: float) -> bool:
        idle = asyncio.ensure_future(self._idle())
        hurry = asyncio.ensure_future(self._hurry.wait())
        both: set[asyncio.Future[Any]] = {idle, hurry}
        done, _ = await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for waiting in both:
            waiting.cancel()
        return idle in done

    async def _idle(self) -> None:
        """Returns when nothing runs."""
        for crew in self._crews:
            await crew.executor.idle()

    async def _close(self) -> None:
        self.heartbeat.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.heartbeat.join, 5)
        await _within(2, self.leases.sign_off())
        for crew in self._crews:
            await crew.leases.close()
            crew.executor.close()
        await self.desk.close()
        await self.backend.close()
        if self.processes is not None:
            await self.processes.stop()
        if self.commands is not None:
            await self.commands.stop()

    def _on_lost(self, job_id: UUID) -> None:
        _log.warning("job %s: its lease was lost before the outcome was written", job_id)

    def _on_drain(self) -> None:
        """An operator wants us to stop. Claims find nothing any more; what runs may take its time."""
        if self._draining is None:
            _log.info("an operator asked worker %s to finish its work and stop", self.name)
            self._draining = self.loop.create_task(self._guarded(self._finish_and_leave))
            self._tasks.append(self._draining)

    async def _finish_and_leave(self) -> None:
        await self._idle()
        self.dismissed.set()

    def _on_verdict(self, job: Job, verdict: str) -> None:
        if job.finished:  # its handler committed it, and is not done yet
            return
        if verdict == "lost" and not job.committing:
            self.executor.end(job, LeaseLost())
        elif verdict == "cancel":
            job.note_canceling()
            self.executor.end(job, Cancel("canceled while it ran"))


async def _within(seconds: float, work: Awaitable[Any]) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except Exception as error:  # noqa: BLE001 - on the way out nothing else can be done about it
        _log.warning("while stopping: %s: %s", type(error).__name__, error)
