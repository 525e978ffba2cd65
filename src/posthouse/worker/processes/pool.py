"""As many processes as the settings say: started with the worker, replaced when they end."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from posthouse.errors import ConfigurationError, LeaseLost
from posthouse.settings import Settings
from posthouse.storage.connect import retry_pause
from posthouse.worker.definition import Definition
from posthouse.worker.executor import CutOff
from posthouse.worker.job import Desk, Job
from posthouse.worker.processes.depth import Depth
from posthouse.worker.processes.link import Call, Process
from posthouse.worker.processes.place import place_of
from posthouse.worker.processes.undertaker import Undertaker

_log = logging.getLogger("posthouse.worker")

START_SECONDS = 300
"""How long a process may take to import the application."""
MAX_FAILURES = 10
"""Processes in a row that did not come up, with none left: the worker gives up."""
CLOSE_SECONDS = 2.0
LOOK_SECONDS = 0.01


def process_count(settings: Settings) -> int:
    """What the setting says, or one for each core that this process may use."""
    if settings.processes:
        return settings.processes
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """Hands calls to processes. ``on_size`` hears how many it takes, ``on_broken`` that none comes up."""

    def __init__(
        self, definitions: Iterable[Definition], url: str | None, settings: Settings, desk: Desk
    ) -> None:
        self._definitions = list(definitions)
        self._desk = desk
        self._size = process_count(settings)
        self._grace = settings.cancel_grace_seconds * 0.9  # the outcome is written at the end of it
        # A lease is given up when a tenth of it is left: what runs must be gone before that is over.
        self._lost_grace = min(self._grace, settings.lease_seconds * 0.05)
        self._hello: dict[str, Any] = {
            "url": url,
            "payload_limit": desk.payload_limit,
            "result_limit": desk.result_limit,
            "job_log_level": desk.log_level,
            "lease_seconds": settings.lease_seconds,
        }
        self._undertaker = Undertaker()
        self._processes: list[Process] = []
        self._waiting: deque[Call] = deque()
        self._depth = Depth()
        self._look: asyncio.TimerHandle | None = None
        self._failures = 0
        self._last_failure = ""
        self._changed = asyncio.Event()
        self._closing = False
        self._starting: set[asyncio.Task[None]] = set()
        self.on_size: Callable[[int], None] = lambda _: None
        self.on_broken: Callable[[], None] = lambda: None

    @property
    def pids(self) -> list[int]:
        """The processes that can be given work."""
        return [process.pid for process in self._processes if process.usable]

    async def start(self) -> None:
        """Returns when all processes have imported the application, and raises if they cannot."""
        self._hello["places"] = {item.kind: place_of(item) for item in self._definitions}
        self._hello["log_level"] = logging.getLogger().getEffectiveLevel()
        try:
            await asyncio.gather(*(self._add() for _ in range(self._size)))
            await self._all_ready()
        except BaseException:
            await self.stop()
            raise

    async def _all_ready(self) -> None:
        while len(self.pids) < self._size:
            if self._failures:
                raise ConfigurationError(f"the processes for jobs cannot start: {self._last_failure}")
            self._changed.clear()
            await self._changed.wait()

    async def _add(self) -> None:
        """From the loop's own thread: a process must not be the child of a thread that ends before it."""
        process = Process(self, self._desk)
        self._processes.append(process)
        self._undertaker.watch(process.pid)
        self._desk.loop.call_later(START_SECONDS, self._kill_unready, process)
        await process.connect(self._hello)

    def _kill_unready(self, process: Process) -> None:
        if process in self._processes and not process.ready:
            process.failure = f"importing the application took more than {START_SECONDS} s"
            process.kill()

    async def run(self, kind: str, jobs: Sequence[Job]) -> list[Any] | None:
        """What the handler answers for each job. Raises what it raised, or Crashed."""
        call = Call(kind, jobs, self._desk.loop)
        self._waiting.append(call)
        self._hand_out()
        try:
            return await call.future
        except asyncio.CancelledError:
            if not self._began(call):
                raise
        call.future = self._desk.loop.create_future()  # the other one was canceled with the task
        assert call.process is not None
        lost = any(isinstance(job.reason, LeaseLost | CutOff) for job in jobs)
        call.process.end(call, self._lost_grace if lost else self._grace)
        return await call.future

    def _began(self, call: Call) -> bool:
        """Whether it is too late to run it not at all."""
        if call.process is not None:
            self._waiting.extendleft(reversed(call.process.take_back()))
        if call in self._waiting:
            self._waiting.remove(call)
        self._hand_out()
        return call.process is not None

    def _hand_out(self) -> None:
        self._fill_processes()
        if self._look is None and any(len(process.calls) > 1 for process in self._processes):
            self._look = self._desk.loop.call_later(LOOK_SECONDS, self._take_back_from_slow)

    def _fill_processes(self) -> None:
        """One call for each process, then more to those whose calls are short."""
        for depth in range(1, self._depth.value + 1):
            for process in self._processes:
                if not self._waiting:
                    return
                if len(process.calls) < depth and process.usable:
                    call = self._waiting.popleft()
                    if not process.put(call):
                        self._waiting.appendleft(call)

    def _take_back_from_slow(self) -> None:
        """A call that takes longer than those before it must not keep the ones behind it."""
        self._look = None
        now = time.monotonic()
        for process in self._processes:
            if len(process.calls) > 1 and process.calls[0].started_at < now - LOOK_SECONDS:
                self._note_depth(now - process.calls[0].started_at)
                self._waiting.extendleft(reversed(process.take_back()))
        self._hand_out()

    def on_ready(self) -> None:
        self._failures = 0
        self._resized()

    def on_answer(self, took: float) -> None:
        self._note_depth(took)
        if self._waiting:
            self._hand_out()

    def _note_depth(self, took: float) -> None:
        if self._depth.note(took):
            self._resized()

    def on_gone(self, process: Process, unstarted: list[Call]) -> None:
        self._processes.remove(process)
        self._undertaker.forget(process.pid)
        self._waiting.extendleft(reversed(unstarted))
        if not self._closing:
            self._note_death(process)
            self._replace()
        self._resized()

    def _note_death(self, process: Process) -> None:
        died = process.died
        if not process.ready:
            self._failures += 1
            self._last_failure = process.failure or f"one {died}"
            _log.error("a process for jobs could not start: %s", self._last_failure)
        elif died is not None:
            _log.warning("process %d for jobs %s; another one is started", process.pid, died)

    def _resized(self) -> None:
        self._changed.set()
        self._hand_out()
        self.on_size(len(self.pids) * self._depth.value)

    def _replace(self) -> None:
        if self._failures >= MAX_FAILURES and not self.pids:
            self.on_broken()
            return
        task = self._desk.loop.create_task(self._add_soon())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _add_soon(self) -> None:
        if self._failures:
            await asyncio.sleep(retry_pause(self._failures))
        await self._add()

    async def stop(self) -> None:
        """Idle processes end by themselves; whatever has not after a moment is ended."""
        self._closing = True
        for task in list(self._starting):
            task.cancel()
        for process in list(self._processes):
            process.close() if process.ready else process.kill()
        try:
            await asyncio.wait_for(self._all_gone(), CLOSE_SECONDS)
        except TimeoutError:
            for process in list(self._processes):
                process.kill()
            await self._all_gone()
        self._undertaker.close()
        if self._look is not None:
            self._look.cancel()

    async def _all_gone(self) -> None:
        while self._processes:
            self._changed.clear()
            await self._changed.wait()
