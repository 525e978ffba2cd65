"""Runs handlers: async ones as tasks, others in threads or processes, up to a number at the same time."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import json
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from posthouse.core.fingerprint import fingerprint
from posthouse.core.outcome import Cancel, Fail, Policy, Snooze, TimedOut, Verdict, decide
from posthouse.core.payload import encode_result
from posthouse.core.redaction import mask_with
from posthouse.core.retry import Retry
from posthouse.core.states import Event
from posthouse.errors import ConfigurationError, InvalidPayload, LeaseLost
from posthouse.storage.leases import Settlement, Success
from posthouse.worker.completer import Completer
from posthouse.worker.definition import COMMAND, Definition
from posthouse.worker.job import Job
from posthouse.worker.rulebook import Masks, Rulebook
from posthouse.worker.threads import Threads

_log = logging.getLogger("posthouse.worker")

_BAD = {Event.FAIL, Event.EXHAUST, Event.RESCUE}
WATCH_SECONDS = 0.1
SUSPECT_CRASHES = 2
"""Jobs that so many workers died with run one at a time; posthouse.settle knows the number too."""


class Released(Exception):
    """The worker stops: the job goes back without spending an attempt."""


class CutOff(Released):
    """The lease could not be renewed: the handler must end, and the job goes back if it is still ours.

    Its token says whether it is. After an outage of Postgres it is, and counts no crash.
    """


class Processes(Protocol):
    """Runs handlers elsewhere; see processes/pool.py."""

    async def run(self, kind: str, jobs: Sequence[Job]) -> list[Any] | None: ...


class Executor:
    def __init__(
        self,
        definitions: Mapping[str, Definition],
        completer: Completer,
        rulebook: Rulebook,
        *,
        concurrency: int,
        result_limit: int,
        cancel_grace: float,
        crash_limit: int,
        held: dict[str, Job],
        processes: Processes | None = None,
    ) -> None:
        self._definitions = definitions
        self._completer = completer
        self._rulebook = rulebook
        self._concurrency = concurrency
        self._result_limit = result_limit
        self._cancel_grace = cancel_grace
        self._crash_limit = crash_limit
        self._processes = processes
        self._threads = Threads("posthouse-job")
        self._pending: deque[list[Job]] = deque()
        self._waiting = 0
        self._busy = 0
        self._draining = False
        self._room = asyncio.Event()
        self._room.set()
        self._loop = asyncio.get_running_loop()
        self._rng = random.Random()  # noqa: S311 - jitter
        self.held = held
        """Every job whose lease the worker holds, by hex id. The heartbeat thread reads it."""
        self.finished = 0
        self.on_room: Callable[[], None] = self._room.set
        self.on_suspect_end: Callable[[], None] = self._room.set

    @property
    def waiting(self) -> int:
        """Jobs claimed but not started."""
        return self._waiting

    @property
    def idle_slots(self) -> int:
        return max(0, self._concurrency - self._busy)

    @property
    def slots(self) -> int:
        return self._concurrency

    def resize(self, concurrency: int) -> None:
        """So many slots from now on."""
        self._concurrency = concurrency
        self._start_pending()

    @property
    def has_suspect(self) -> bool:
        return any(job.crashes >= SUSPECT_CRASHES for job in self.held.values())

    async def room(self) -> None:
        """Returns when a slot or a place in the line may have become free."""
        self._room.clear()
        await self._room.wait()

    def accept(self, jobs: Iterable[Job]) -> None:
        """Takes claimed jobs and starts what there is a slot for."""
        for group in self._grouped(jobs):
            self._pending.append(group)
            self._waiting += len(group)
            for job in group:
                self._hold(job)
        if self._draining:  # this claim was under way when the worker was told to stop
            self._release_pending()
        self._start_pending()

    def _hold(self, job: Job) -> None:
        earlier = self.held.get(job.hex_id)
        if earlier is not None:  # we lost its lease, and then got the job again
            self.end(earlier, LeaseLost())
        self.held[job.hex_id] = job

    def _holds(self, job: Job) -> bool:
        """By identity: a later attempt at the same job may stand in its place."""
        return self.held.get(job.hex_id) is job

    def _grouped(self, jobs: Iterable[Job]) -> Iterable[list[Job]]:
        """Single jobs as they come; jobs of a batch kind together, up to its size."""
        batches: dict[str, list[Job]] = {}
        for job in jobs:
            size = self._definitions[job.kind].batch
            if size is None:
                yield [job]
                continue
            batch = batches.setdefault(job.kind, [])
            batch.append(job)
            if len(batch) == size:
                yield batches.pop(job.kind)
        yield from batches.values()

    def _start_pending(self) -> None:
        while self._pending and self._busy < self._concurrency:
            group = self._pending.popleft()
            self._waiting -= len(group)
            group = [job for job in group if self._holds(job)]
            if group:
                self._start(group)
        self._room.set()

    def _start(self, group: list[Job]) -> None:
        self._busy += 1
        definition = self._definitions[group[0].kind]
        now = time.monotonic()
        for job in group:
            timeout = job.timeout_seconds if job.timeout_seconds is not None else definition.timeout
            job.deadline = None if timeout is None else now + timeout
        if definition.batch is None:
            task = self._loop.create_task(self._run_one(definition, group[0]))
            group[0].task = task
        else:
            task = self._loop.create_task(self._run_batch(definition, group))
            for job in group:
                job.task = task

    async def _run_one(self, definition: Definition, job: Job) -> None:
        mask_with(Masks(self._rulebook, (job,)))
        try:
            try:
                self._rulebook.check(job)
                if self._processes is not None:
                    (value,) = await self._processes.run(job.kind, [job]) or (None,)
                else:
                    arguments = definition.arguments.read(job.payload_text)
                    positional = (job,) if definition.arguments.takes_job else ()
                    value = await self._call(definition, [job], positional, arguments)
            finally:
                if job.told:
                    await _land([job])
            self._end(job, definition, value)
        except BaseException as error:  # noqa: BLE001 - every way to end is an outcome
            self._end_with(job, definition, job.reason or error)
        finally:
            self._busy -= 1
            self._start_pending()

    async def _run_batch(self, definition: Definition, jobs: list[Job]) -> None:
        mask_with(Masks(self._rulebook, jobs))
        try:
            jobs = [job for job in jobs if self._fits(job, definition)]
            if not jobs:
                return
            try:
                if self._processes is not None:
                    values: Any = await self._processes.run(definition.kind, jobs)
                else:
                    values = await self._call(definition, jobs, (jobs,), {})
            finally:
                await _land(jobs)
            for job, value in zip(jobs, _answers(definition, jobs, values), strict=True):
                self._end(job, definition, value)
        except BaseException as error:  # noqa: BLE001 - every way to end is an outcome
            for job in jobs:
                if self._holds(job):
                    self._end_with(job, definition, job.reason or _own_share(job, error))
        finally:
            self._busy -= 1
            self._start_pending()

    def _fits(self, job: Job, definition: Definition) -> bool:
        """Ends a job of a batch whose payload does not fit: the others go on without it."""
        try:
            self._rulebook.check(job)
            definition.arguments.read(job.payload_text)
        except Exception as error:  # noqa: BLE001 - every way to end is an outcome
            self._end_with(job, definition, error)
            return False
        return True

    async def _call(
        self,
        definition: Definition,
        jobs: Sequence[Job],
        positional: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> Any:
        if definition.is_async:
            return await definition.handler(*positional, **arguments)
        here = contextvars.copy_context()
        function = functools.partial(here.run, definition.handler, *positional, **arguments)
        call = self._threads.start(function, self._loop)
        try:
            return await asyncio.shield(call.future)
        except asyncio.CancelledError:
            call.interrupt()
            if all(job.reason is None for job in jobs):  # not by us: the loop itself is going away
                raise
        return await asyncio.shield(call.future)  # the slot is taken for as long as the thread is

    def _end(self, job: Job, definition: Definition, value: Any) -> None:
        """The handler returned. If the worker had ended it, that counts; unless it was only in a hurry."""
        if job.reason is not None and not isinstance(job.reason, Released):
            self._end_with(job, definition, job.reason)
            return
        if isinstance(value, Snooze | Cancel | Fail | Exception):
            self._end_with(job, definition, value)
            return
        if not self._let_go(job):
            return
        result = None if value is None else encode_result(value, self._result_limit)
        output = None if job.output is None else _output_text(job)
        self._completer.succeed(Success(job.hex_id, job.hex_token, result, job.followups, output))

    def _end_with(self, job: Job, definition: Definition, ending: BaseException) -> None:
        """The handler raised, or the worker ended it."""
        if not self._let_go(job):
            return
        match ending:
            case LeaseLost():
                _log.warning("job %s: the lease was lost, its work is dropped", job.id)
                return
            case Released():
                if isinstance(ending, CutOff):
                    _log.warning("job %s: its lease could not be renewed, it is given back", job.id)
                verdict = Verdict(Event.RELEASE, "released", 0.0)
            case InvalidPayload():
                error = {"type": "InvalidPayload", "message": str(ending)}
                verdict = Verdict(Event.EXHAUST, "failed", error=error)
            case _:
                verdict = decide(job, ending, self._policy_of(job, definition), self._rng)
        if verdict.error is not None:
            error = self._rulebook.masked_error(job, verdict.error)
            error["fingerprint"] = fingerprint(error)  # of what is masked: it must not tell of secrets either
            verdict = dataclasses.replace(verdict, error=error)
        _log_verdict(job, verdict)
        self._completer.settle(
            Settlement(
                job.hex_id,
                job.hex_token,
                verdict.event,
                verdict.outcome,
                verdict.delay,
                verdict.error,
                _output_text(job),
            )
        )

    def _policy_of(self, job: Job, definition: Definition) -> Policy:
        policy = definition.policy
        if job.retry_json is not None:
            retry = Retry.from_json(job.retry_json)
        else:
            retry = self._rulebook.retry(job.kind) or policy.retry
        return Policy(retry, policy.fail_on, self._crash_limit)

    def _let_go(self, job: Job) -> bool:
        """Ends our hold on the job; False if it was reported already."""
        if not self._holds(job):
            return False
        del self.held[job.hex_id]
        self.finished += 1
        if job.crashes >= SUSPECT_CRASHES:
            self.on_suspect_end()
        if job.finished:
            return False
        job.finished = True
        return True

    def end(self, job: Job, reason: BaseException) -> None:
        """Ends a job from outside: its handler is canceled, and reported after a grace at the latest."""
        if job.reason is not None or not self._holds(job):
            return
        job.reason = reason
        definition = self._definitions[job.kind]
        if job.task is None:
            self._end_with(job, definition, reason)
            return
        if definition.batch is None or all(
            other.reason is not None for other in self.held.values() if other.task is job.task
        ):
            job.task.cancel()
        if definition.runner != COMMAND:  # that one surely ends, and is to be gone before anybody hears of it
            self._loop.call_later(self._cancel_grace, self._end_with, job, definition, reason)

    def end_all(self, reason: BaseException) -> None:
        for job in list(self.held.values()):
            self.end(job, reason)

    def drain(self) -> None:
        """Starts nothing more: what has not started is given back."""
        self._draining = True
        self._release_pending()

    def _release_pending(self) -> None:
        while self._pending:
            group = self._pending.popleft()
            self._waiting -= len(group)
            for job in group:
                self._end_with(job, self._definitions[job.kind], Released())

    async def watch(self) -> None:
        """Ends jobs that ran past their timeout, or whose lease could not be renewed in time."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            for job in list(self.held.values()):
                if job.expires < now and not job.finished:
                    self.end(job, CutOff())
                elif job.deadline is not None and job.deadline < now:
                    self.end(job, TimedOut(f"ran longer than its timeout, attempt {job.attempt}"))

    async def idle(self) -> None:
        """Returns when nothing runs."""
        while self._busy:
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self._threads.close()


async def _land(jobs: Sequence[Job]) -> None:
    """What they have told of themselves is written before their end is."""
    told = [job for job in jobs if job.told]
    if told:
        await asyncio.gather(*(job.land() for job in told))


def _output_text(job: Job) -> str | None:
    return None if job.output is None else json.dumps(job.output)


def _own_share(job: Job, error: BaseException) -> BaseException:
    """What an error means for one job of a batch: another's lost lease is no fault of its own."""
    return Released() if isinstance(error, LeaseLost) and not job.lost else error


def _answers(definition: Definition, jobs: list[Job], values: Any) -> list[Any]:
    answers = [None] * len(jobs) if values is None else list(values)
    if len(answers) != len(jobs):
        raise ConfigurationError(
            f"{definition.kind} was given {len(jobs)} jobs and answered for {len(answers)}"
        )
    return answers


def _log_verdict(job: Job, verdict: Verdict) -> None:
    """A line for each attempt that did not succeed; louder if it was the last."""
    level = logging.WARNING if verdict.event in _BAD else logging.INFO
    if not _log.isEnabledFor(level):
        return
    error = f": {verdict.error['type']}: {verdict.error['message']}" if verdict.error else ""
    again = "" if verdict.delay is None else f"; again in {verdict.delay:.3g} s"
    text = "attempt %d of %d %s%s%s"
    values = (job.attempt, job.max_attempts, verdict.outcome, error, again)
    # Not through job.log: what it says is kept with the job, and the attempt's record says the same.
    job.log.logger.log(level, text, *values, extra=job.about)
