"""Keep a number of worker processes running."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from posthouse.commands.child import describe_exit
from posthouse.commands.guardian_client import GuardianClient
from posthouse.errors import PosthouseError
from posthouse.settings import Settings
from posthouse.supervisor.child import WorkerChild
from posthouse.supervisor.liveness import MAX_TICK, find_blockers, silence_limit, tick_seconds
from posthouse.waiting import Backoff
from posthouse.worker.backend import REJECTED, UNREACHABLE, Backend
from posthouse.worker.postgres import PostgresBackend

_log = logging.getLogger("posthouse.supervisor")
_SETTLE_ERRORS: tuple[type[Exception], ...] = (TimeoutError, *REJECTED)


class JobSettler:
    """Settles the jobs of a killed worker, in the database or through the server.

    If settling fails, a keeper rescues the jobs.
    """

    def __init__(self, connect: Callable[[UUID], Backend], crash_limit: int) -> None:
        self._connect = connect
        self._crash_limit = crash_limit

    @classmethod
    def direct(cls, url: str, settings: Settings) -> JobSettler:
        return cls(lambda worker_id: PostgresBackend(url, worker_id, settings), settings.crash_limit)

    @classmethod
    def remote(cls, settings: Settings) -> JobSettler:
        from posthouse.worker.remote import HttpBackend  # noqa: PLC0415 - optional; imported before a stop

        return cls(lambda worker_id: HttpBackend(worker_id, settings), settings.crash_limit)

    async def end_worker(
        self, worker_id: UUID, blockers: Sequence[UUID] | None, error: Mapping[str, Any], *, within: float
    ) -> None:
        """Count a crash for the blockers (None: all jobs of the worker), and release the other jobs."""
        backend = self._connect(worker_id)
        leases = backend.leases()
        try:
            async with asyncio.timeout(within):
                await self._retry_until_settled(leases.end_worker, blockers, error)
        except _SETTLE_ERRORS as failure:
            reason = str(failure) or f"no answer within {within:g} s"
            _log.warning("jobs not settled, a keeper will rescue them: worker_id=%s: %s", worker_id, reason)
        finally:
            await leases.close()
            await backend.close()

    async def _retry_until_settled(
        self, end: Callable[..., Any], blockers: Sequence[UUID] | None, error: Mapping[str, Any]
    ) -> None:
        backoff = Backoff()
        while True:
            try:
                await end(blockers, error, self._crash_limit)
            except UNREACHABLE:
                await backoff.sleep()
            else:
                return


START_SECONDS = 300.0
"""How long a child may take to import the application and register as a worker."""
STABLE_SECONDS = 60.0
"""A child that ran this long does not delay its replacement."""
PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before a child is replaced, by the number of children in a row that ended early."""
STOP_SECONDS = 3.5
"""How long after the drain time children may take to stop before they are killed."""
SETTLE_SECONDS = 0.6
MEASURE_SECONDS = 1.0


class Supervisor:
    """The supervisor: starts the children, replaces those that end or are stuck, and stops them.

    ``spec`` defines what the children run: see posthouse.cli.child. The first child reports the settings of
    the application, from which ``on_loaded`` creates the JobSettler; then the other children start.
    """

    def __init__(
        self, spec: Mapping[str, Any], on_loaded: Callable[[Settings], Awaitable[JobSettler]]
    ) -> None:
        self._spec = spec
        self._on_loaded = on_loaded
        self._settler: JobSettler | None = None
        self._guardian = GuardianClient()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._stopping = False
        self._early_ends = 0
        self._was_ready = False
        self.children: list[WorkerChild] = []
        self.settings: Settings | None = None
        """Set when the first child has loaded the application."""
        self.failed: asyncio.Event = asyncio.Event()
        """Set when no worker can run; ``exit_code`` says how the child ended."""
        self.drained: asyncio.Event = asyncio.Event()
        """Set when operators have drained all workers."""
        self.exit_code = 0
        self.error: PosthouseError | None = None
        """Why no worker can run, if the error occurred in the supervisor."""
        self.on_metrics_end: Callable[[str], None] = lambda _: None
        """Called with the last metrics of a child that has ended."""
        self.ran_at = time.monotonic()
        """When the supervisor last checked its children."""

    def start(self) -> None:
        """Start the first child. The others start when the first one has loaded the application."""
        self._add(1)
        self._spawn(self._watch())

    async def ready(self) -> bool:
        """Wait until all children have started. Return False if they cannot start."""
        while not (self.failed.is_set() or self.drained.is_set() or self._all_ready()):
            self._changed.clear()
            await self._changed.wait()
        return not self.failed.is_set()

    def _all_ready(self) -> bool:
        ready = sum(child.is_ready for child in self.children)
        return self.settings is not None and ready >= self.settings.process_count()

    def _add(self, number: int) -> None:
        self.children.append(WorkerChild(self, number, self._spec, self._guardian))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except PosthouseError as error:
            self.error = error
            self.failed.set()
            self._changed.set()
        except Exception:  # noqa: BLE001 - logged, and the supervisor stops
            _log.exception("supervisor failed, stopping")
            self.exit_code = 1
            self.failed.set()
            self._changed.set()

    def on_message(self, child: WorkerChild, message: Mapping[str, Any]) -> None:
        match message:
            case {"loaded": settings}:
                self._spawn(self._let_start(child, _settings(settings)))
            case {"ready": worker_id, "name": name}:
                child.worker_id, child.name = UUID(worker_id), name
                self._was_ready = True
            case {"recycling": reason}:
                _log.info("child process is replaced: worker=%s pid=%d %s", child.name, child.pid, reason)
                child.is_leaving = True
                if not self._stopping:
                    self._add(child.number)
            case {"drained_by_operator": _}:
                child.is_leaving = True
            case {"metrics": text}:
                child.metrics = text
                if child.measured is not None and not child.measured.done():
                    child.measured.set_result(None)
        self._changed.set()

    async def _let_start(self, child: WorkerChild, settings: Settings) -> None:
        if self.settings is None:
            self._settler = await self._on_loaded(settings)
            self.settings = settings
            self.ran_at = time.monotonic()  # the ticks before may exceed a short lease
            for number in range(2, settings.process_count() + 1):
                self._add(number)
        child.send(go=True)

    async def measure(self) -> list[str]:
        """Return the metrics of each child, or its previous ones if it does not respond in time."""
        asked = [child.ask_for_metrics() for child in self.children if child.is_ready]
        if asked:
            await asyncio.wait(asked, timeout=MEASURE_SECONDS)
        return [child.metrics for child in self.children if child.metrics]

    def errors(self) -> list[str]:
        """Return the loops that are stuck, for the liveness probe. Can be called from any thread."""
        if self.settings is None:
            return []
        now, limit = time.monotonic(), self.settings.lease_seconds
        found = [("the event loop of the supervisor", self.ran_at)]
        for child in list(self.children):
            if child.is_ready and not child.is_killed:
                found.append((f"the event loop of worker {child.name}", child.status.loop_at))
                found.append((f"the lease renewal of worker {child.name}", child.status.beat_at))
        return [f"{what} has not run for {now - at:.1f} s" for what, at in found if now - at > limit]

    def on_end(self, child: WorkerChild, code: int) -> None:
        self.children.remove(child)
        if self._stopping:
            if not self.children:
                self._all_ended.set()
        elif code > 0 and not self._was_ready:
            self.exit_code = code
            self.failed.set()
        elif child.is_killed or not child.is_leaving:
            self._replace(child, code)
        elif not self.children:
            self.drained.set()
        self._changed.set()
        if child.metrics:
            self.on_metrics_end(child.metrics)
        if not child.is_killed:
            child.close()

    def _replace(self, child: WorkerChild, code: int) -> None:
        early = time.monotonic() - child.started_at < STABLE_SECONDS
        self._early_ends = self._early_ends + 1 if early else 0
        pause = PAUSES[min(self._early_ends, len(PAUSES) - 1)] if early else 0.0
        if not child.is_killed:
            _log.warning(
                "child process %s, replaced in %g s: worker=%s pid=%d%s",
                describe_exit(code),
                pause,
                child.name,
                child.pid,
                f"\n{child.stacks()}".rstrip(),
            )
        self._spawn(self._add_later(child.number, pause))

    async def _add_later(self, number: int, pause: float) -> None:
        await asyncio.sleep(pause)
        if not self._stopping:
            self._add(number)

    async def _watch(self) -> None:
        """Check all children at each tick."""
        while True:
            tick = MAX_TICK if self.settings is None else tick_seconds(self.settings)
            await asyncio.sleep(tick)
            self.ran_at = time.monotonic()
            for child in self.children:
                reason = None if child.is_killed else self._reason_to_kill(child, tick)
                if reason is not None:
                    child.is_killed = True
                    self._spawn(self._kill(child, reason))

    def _reason_to_kill(self, child: WorkerChild, tick: float) -> str | None:
        """Return why the child must be killed, or None."""
        now = time.monotonic()
        if self.settings is None or not child.is_ready:
            late = now - child.started_at > START_SECONDS
            return f"it did not start within {START_SECONDS:g} s" if late else None
        if self._silence(child, tick) > silence_limit(self.settings):
            return f"its interpreter was blocked for {now - child.status.alive_at:.1f} s"
        grace = self.settings.cancel_grace_seconds
        still = now - child.status.loop_at
        if child.status.deadline + grace < now and still > max(grace, 2.0):
            return f"its event loop was blocked for {still:.1f} s, past the timeout of a job"
        return None

    def _silence(self, child: WorkerChild, tick: float) -> float:
        """Return how long the child was silent while this process ran: both may have been suspended."""
        alive_at = child.status.alive_at
        if child.silent_since is None or child.silent_since[0] != alive_at:
            child.silent_since = (alive_at, 0.0)
        else:
            child.silent_since = (alive_at, child.silent_since[1] + tick)
        return child.silent_since[1]

    async def _kill(self, child: WorkerChild, reason: str) -> None:
        """Kill a child that is stuck: its blocker counts a crash, its other jobs are released."""
        child.ask_for_stacks()
        blockers = await find_blockers(child.pid, child.status.running())
        named = ",".join(map(str, blockers)) if blockers else "unknown" if blockers is None else "none"
        _log.error(
            "child process is stuck and is killed, %s: worker=%s pid=%d job=%s",
            reason,
            child.name,
            child.pid,
            named,
        )
        await self._end(child, blockers, reason, within=60.0)

    async def _end(
        self, child: WorkerChild, blockers: Sequence[UUID] | None, reason: str, within: float
    ) -> None:
        child.kill()
        await child.ended
        error = {
            "message": f"the worker process was killed because {reason}",
            "pid": child.pid,
            "signal": "SIGKILL",
            "traceback": child.stacks() or None,
        }
        child.close()
        if child.worker_id is not None and self._settler is not None:
            fields = {name: value for name, value in error.items() if value is not None}
            await self._settler.end_worker(child.worker_id, blockers, fields, within=within)

    def release_jobs(self) -> None:
        """Cut the drain of stop() short."""
        for child in self.children:
            child.send(release_jobs=True)
        self._loop.call_later(STOP_SECONDS, self._all_ended.set)

    def drain_seconds(self) -> float:
        """Return how long running jobs may take after a stop; no job runs before the settings are known."""
        return 0.0 if self.settings is None else self.settings.drain_seconds

    async def stop(self) -> None:
        """Drain all children; kill those that do not stop in time, and release their jobs."""
        self._stopping = True
        drain = self.drain_seconds()
        if self.children:
            _log.info("stop requested, waiting up to %g s for running jobs", drain)
        for child in self.children:
            if child.is_ready:
                child.send(drain=True)
            else:
                child.kill()
        limit = STOP_SECONDS + drain
        if self.children:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), limit)
        left = [self._end(child, [], "it did not stop", SETTLE_SECONDS) for child in list(self.children)]
        for child in self.children:
            _log.warning(
                "child process did not stop in time and is killed: worker=%s pid=%d", child.name, child.pid
            )
        await asyncio.gather(*left)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._guardian.close)


def _settings(values: Mapping[str, Any]) -> Settings:
    return Settings(**{**values, "data_dir": Path(values["data_dir"])})
