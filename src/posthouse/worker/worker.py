"""A worker: the parts put together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any
from uuid import UUID, uuid4

from posthouse.core.outcome import Cancel
from posthouse.errors import ConfigurationError, LeaseLost
from posthouse.settings import Settings
from posthouse.storage.leases import Leases
from posthouse.storage.pools import Pools
from posthouse.worker.commit import Commit
from posthouse.worker.completer import Completer
from posthouse.worker.definition import Definition
from posthouse.worker.executor import WATCH_SECONDS, CutOff, Executor, Released
from posthouse.worker.fetcher import Fetcher
from posthouse.worker.heartbeat import Heartbeat, install_interrupt
from posthouse.worker.job import Job
from posthouse.worker.listener import Listener

_log = logging.getLogger("posthouse.worker")

ALONE_SECONDS = 0.5
"""How long a worker tries to be seen again. A second after it was last seen, its jobs may be given away."""


class Worker:
    """Runs the jobs of some definitions until it is stopped."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        url: str,
        settings: Settings,
        *,
        queues: Sequence[str] = (),
    ) -> None:
        self.id: UUID = uuid4()
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.settings = settings
        self.definitions = definitions
        self.queues = sorted(set(queues) or {item.queue for item in definitions.values()})
        self.loop = asyncio.get_running_loop()
        self.payload_limit = settings.max_payload_bytes
        self.leases = Leases(url, self.id, settings.lease_seconds, settings.direct_url)
        self.completer = Completer(self.leases, self._on_lost)
        self.executor = Executor(
            definitions,
            self.completer,
            concurrency=settings.concurrency,
            result_limit=settings.max_result_bytes,
            cancel_grace=settings.cancel_grace_seconds,
        )
        self.fetcher = Fetcher(
            self.leases,
            self.executor,
            self,
            queues=self.queues,
            kinds=sorted(definitions),
            poll_seconds=settings.poll_seconds,
        )
        direct = settings.direct_url or url
        self.heartbeat = Heartbeat(
            direct,
            self.id,
            self.executor.held,
            self.loop,
            on_verdict=self._on_verdict,
            heartbeat_seconds=settings.heartbeat_seconds,
            lease_seconds=settings.lease_seconds,
        )
        self.listener = Listener(
            direct,
            self.id,
            set(self.queues),
            on_work=self.fetcher.wake,
            on_cancel=self.heartbeat.beat_now,
            on_listening=self.fetcher.can_hear,
        )
        self._pools = Pools(url)
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self.failed: asyncio.Event = asyncio.Event()
        """Set when a part of the worker broke: it must not live on and only look alive."""
        if not definitions:
            raise ConfigurationError("this worker knows no jobs: register some with @app.job")

    async def start(self) -> None:
        await self.leases.announce(
            {
                "name": self.name,
                "hostname": socket.gethostname(),
                "pid": os.getpid(),
                "version": version("posthouse"),
                "queues": self.queues,
                "kinds": sorted(self.definitions),
                "concurrency": self.settings.concurrency,
                "capabilities": {},
                "metadata": {},
            },
            [item.announcement() for item in self.definitions.values()],
        )
        self.heartbeat.can_interrupt = install_interrupt(self.loop, self.executor.held)
        self.heartbeat.start()
        self._fetching = self.loop.create_task(self._guarded(self.fetcher.run))
        self._tasks.append(self._fetching)
        for part in (self.completer.run, self.executor.watch, self._listen, self._watch_sight):
            self._tasks.append(self.loop.create_task(self._guarded(part)))

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
            self.fetcher.held_back = since is not None
            if since is not None and time.monotonic() > since + ALONE_SECONDS:
                self.executor.end_all(CutOff())

    async def _listen(self) -> None:
        await self.listener.run()
        self.fetcher.can_be_woken = False  # behind a pooler: polling carries on

    def hurry(self) -> None:
        """Cuts the drain of stop() short."""
        self._hurry.set()

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Drains: no new claims, unstarted jobs go back at once, running ones after a grace."""
        limit = self.settings.drain_seconds if drain_seconds is None else drain_seconds
        self.fetcher.stopping = True
        self.fetcher.wake()
        self.executor.on_room()
        self.executor.drain()
        if not await self._idle_within(limit):
            self.executor.end_all(Released())
            await _within(self.settings.cancel_grace_seconds + 1, self.executor.idle())
        if self._fetching is not None:
            # A claim under way is let through, so that what it takes can be given back.
            await asyncio.wait([self._fetching], timeout=5)
        await _within(10, self.completer.drain())
        await self._close()

    async def _idle_within(self, limit: float) -> bool:
        idle = asyncio.ensure_future(self.executor.idle())
        hurry = asyncio.ensure_future(self._hurry.wait())
        both: set[asyncio.Future[Any]] = {idle, hurry}
        done, _ = await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for waiting in both:
            waiting.cancel()
        return idle in done

    async def _close(self) -> None:
        self.heartbeat.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.heartbeat.join, 5)
        await _within(2, self.leases.sign_off())
        await self.leases.close()
        await self._pools.close()
        self.executor.close()

    async def report_progress(
        self, job: Job, percent: float | None, step: str | None, message: str | None
    ) -> None:
        sent = time.monotonic()
        if not await self.leases.progress(job.id, job.token, percent, step, message):
            job.expires = 0.0  # it hears of it here; if it goes on nevertheless, it is ended
            raise LeaseLost(f"job {job.id} was given to another worker")
        job.expires = sent + self.settings.lease_seconds * 0.9

    def begin_commit(self, job: Job) -> Commit:
        return Commit(job, self._pools, self.settings.max_result_bytes)

    def _on_lost(self, job_id: UUID) -> None:
        _log.warning("job %s: its lease was lost before the outcome was written", job_id)

    def _on_verdict(self, job: Job, verdict: str) -> None:
        if job.finished:  # its handler committed it, and is not done yet
            return
        if verdict == "lost":
            self.executor.end(job, LeaseLost())
        else:
            job.note_canceling()
            self.executor.end(job, Cancel("canceled while it ran"))


async def _within(seconds: float, work: Awaitable[Any]) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except Exception as error:  # noqa: BLE001 - on the way out nothing else can be done about it
        _log.warning("while stopping: %s: %s", type(error).__name__, error)
