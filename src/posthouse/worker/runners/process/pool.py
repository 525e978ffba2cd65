"""The pool of job processes: started with the worker, replaced when one ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from posthouse.commands.guardian_client import GuardianClient
from posthouse.errors import ConfigurationError, LeaseLost
from posthouse.settings import Settings
from posthouse.waiting import Backoff
from posthouse.worker.attempt import Attempt
from posthouse.worker.backend import LeaseTiming
from posthouse.worker.executor import STOP_GRACE
from posthouse.worker.handlers import JobDefinition
from posthouse.worker.outcomes import LeaseExpired, Released
from posthouse.worker.runners.process.process import ProcessCall, WorkerProcess
from posthouse.worker.runners.process.protocol import import_path_of
from posthouse.worker.services import WorkerJobServices

PREFETCH_SECONDS = 0.005
MAX_DEPTH = 16
"""Maximum number of calls in a process. No-op jobs per second on 2 busy cores, in two runs: 2,277 and 1,719
at depth 1; 2,384 and 3,749 at 4; 2,868 and 3,060 at 8; 4,130 and 4,974 at 16.
"""


class PipelineDepth:
    """The number of calls that a process may have.

    One, unless the last calls were short: then as many as finish in ``PREFETCH_SECONDS``, so that a process
    need not wait for the worker between calls. One long call resets the depth to one.
    """

    def __init__(self) -> None:
        self._call_seconds = 1.0
        self.value = 1

    def record(self, seconds: float) -> bool:
        """Record the duration of a call. Return whether the depth has changed."""
        self._call_seconds = (
            seconds if seconds > self._call_seconds else 0.9 * self._call_seconds + 0.1 * seconds
        )
        before, self.value = (
            self.value,
            max(1, min(MAX_DEPTH, int(PREFETCH_SECONDS / max(self._call_seconds, 1e-6)))),
        )
        return self.value != before


_log = logging.getLogger("posthouse.worker")

START_SECONDS = 300
"""How long a process may take to import the application."""
MAX_FAILURES = 10
"""The worker gives up after this many failed starts in a row with no process left."""
CLOSE_SECONDS = 2.0
SLOW_CALL_SECONDS = 0.01


class ProcessPool:
    """A pool of job processes.

    ``on_resize`` receives the new capacity. ``on_unrecoverable`` is called if no process can be started.
    """

    def __init__(
        self,
        definitions: Iterable[JobDefinition],
        url: str | None,
        settings: Settings,
        services: WorkerJobServices,
    ) -> None:
        self._definitions = list(definitions)
        self._services = services
        self._size = settings.slots_of_processes()
        # shorter than the executor's grace, at whose end the outcome is written
        self._grace = settings.cancel_grace_seconds * 0.9
        self._lease_lost_grace = LeaseTiming(settings.lease_seconds).stop_grace(self._grace)
        self._config: dict[str, Any] = {
            "url": url,
            "limits": services.limits,
        }
        self._guardian = GuardianClient()
        self._processes: list[WorkerProcess] = []
        self._waiting: deque[ProcessCall] = deque()
        self._depth = PipelineDepth()
        self._slow_check: asyncio.TimerHandle | None = None
        self._backoff = Backoff()
        self._last_failure = ""
        self._changed = asyncio.Event()
        self._closing = False
        self._starting: set[asyncio.Task[None]] = set()
        self.on_resize: Callable[[int], None] = lambda _: None
        self.on_unrecoverable: Callable[[], None] = lambda: None

    @property
    def pids(self) -> list[int]:
        """The pids of the processes that accept calls."""
        return [process.pid for process in self._processes if process.is_ready_for_calls]

    async def start(self) -> None:
        """Start all processes and wait until they have imported the application. Raise if they cannot."""
        self._config["import_paths"] = {item.kind: import_path_of(item) for item in self._definitions}
        self._config["log_level"] = logging.getLogger().getEffectiveLevel()
        try:
            await asyncio.gather(*(self._add() for _ in range(self._size)))
            await self._all_ready()
        except BaseException:
            await self.stop()
            raise

    async def _all_ready(self) -> None:
        while len(self.pids) < self._size:
            if self._backoff.failures:
                raise ConfigurationError(f"the job processes cannot start: {self._last_failure}")
            self._changed.clear()
            await self._changed.wait()

    async def _add(self) -> None:
        process = WorkerProcess(self, self._services, self._guardian)
        self._processes.append(process)
        self._services.loop.call_later(START_SECONDS, self._kill_unready, process)
        await process.connect(self._config)

    def _kill_unready(self, process: WorkerProcess) -> None:
        if process in self._processes and not process.ready:
            process.failure = f"importing the application took more than {START_SECONDS} s"
            process.kill()

    async def run(self, kind: str, attempts: Sequence[Attempt]) -> list[Any] | None:
        """Run the handler and return its result for each job. Raises what it raised, or Crashed."""
        call = ProcessCall(kind, attempts, self._services.loop)
        self._waiting.append(call)
        self._dispatch()
        try:
            return await call.future
        except asyncio.CancelledError:
            if not self._has_started(call):
                raise
        call.future = self._services.loop.create_future()  # the old future was canceled with the task
        assert call.process is not None
        lost = any(isinstance(attempt.stop_reason, LeaseLost | LeaseExpired) for attempt in attempts)
        stopping = any(type(attempt.stop_reason) is Released for attempt in attempts)
        grace = min(self._grace, STOP_GRACE * 0.9) if stopping else self._grace
        call.process.interrupt(call, self._lease_lost_grace if lost else grace)
        return await call.future

    def _has_started(self, call: ProcessCall) -> bool:
        """Return whether the call has already started; otherwise withdraw it."""
        if call.process is not None:
            self._waiting.extendleft(reversed(call.process.reclaim()))
        if call in self._waiting:
            self._waiting.remove(call)
        self._dispatch()
        return call.process is not None

    def _dispatch(self) -> None:
        self._fill_processes()
        if self._slow_check is None and any(len(process.calls) > 1 for process in self._processes):
            self._slow_check = self._services.loop.call_later(SLOW_CALL_SECONDS, self._reclaim_from_slow)

    def _fill_processes(self) -> None:
        """Give each process one call, and then more calls up to the current depth."""
        for depth in range(1, self._depth.value + 1):
            for process in self._processes:
                if not self._waiting:
                    return
                if len(process.calls) < depth and process.is_ready_for_calls:
                    call = self._waiting.popleft()
                    if not process.put(call):
                        self._waiting.appendleft(call)

    def _reclaim_from_slow(self) -> None:
        """Take calls back from processes whose current call takes longer than ``SLOW_CALL_SECONDS``."""
        self._slow_check = None
        now = time.monotonic()
        for process in self._processes:
            if len(process.calls) > 1 and process.calls[0].started_at < now - SLOW_CALL_SECONDS:
                self._record_call(now - process.calls[0].started_at)
                self._waiting.extendleft(reversed(process.reclaim()))
        self._dispatch()

    def on_ready(self) -> None:
        self._backoff.reset()
        self._on_capacity_change()

    def on_call_end(self, seconds: float) -> None:
        self._record_call(seconds)
        if self._waiting:
            self._dispatch()

    def _record_call(self, seconds: float) -> None:
        if self._depth.record(seconds):
            self._on_capacity_change()

    def on_exit(self, process: WorkerProcess, unstarted: list[ProcessCall]) -> None:
        self._processes.remove(process)
        self._waiting.extendleft(reversed(unstarted))
        if not self._closing:
            self._log_exit(process)
            self._replace()
        self._on_capacity_change()

    def _log_exit(self, process: WorkerProcess) -> None:
        exit_description = process.exit_description
        if not process.ready:
            self._backoff.failures += 1
            self._last_failure = process.failure or f"one {exit_description}"
            _log.error("job process failed to start: %s", self._last_failure)
        elif exit_description is not None:
            _log.warning(
                "job process exited, starting a replacement pid=%d reason=%s", process.pid, exit_description
            )

    def _on_capacity_change(self) -> None:
        self._changed.set()
        self._dispatch()
        self.on_resize(len(self.pids) * self._depth.value)

    def _replace(self) -> None:
        if self._backoff.failures >= MAX_FAILURES and not self.pids:
            self.on_unrecoverable()
            return
        task = self._services.loop.create_task(self._add_after_backoff())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _add_after_backoff(self) -> None:
        if self._backoff.failures:
            await asyncio.sleep(self._backoff.delay)
        await self._add()

    async def stop(self) -> None:
        """Let the processes exit. Kill those that are starting or still run after ``CLOSE_SECONDS``."""
        self._closing = True
        for task in list(self._starting):
            task.cancel()
        for process in list(self._processes):
            process.close() if process.ready else process.kill()
        try:
            await asyncio.wait_for(self._all_exited(), CLOSE_SECONDS)
        except TimeoutError:
            for process in list(self._processes):
                process.kill()
            await self._all_exited()
        self._guardian.close()
        if self._slow_check is not None:
            self._slow_check.cancel()

    async def _all_exited(self) -> None:
        while self._processes:
            self._changed.clear()
            await self._changed.wait()
