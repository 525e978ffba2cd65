"""Run handlers up to a maximum concurrency: async ones as tasks, others in threads or processes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from posthouse.core.outcome import Cancel, Fail, Snooze, TimedOut
from posthouse.core.payload import encode_result
from posthouse.core.redaction import mask_with
from posthouse.errors import ConfigurationError, InvalidPayload, InvalidResult, LeaseLost
from posthouse.storage.leases import Success
from posthouse.worker.attempt import Attempt
from posthouse.worker.completer import Completer
from posthouse.worker.contexts import in_own_context
from posthouse.worker.definitions import CallMask, DefinitionWatcher
from posthouse.worker.handlers import COMMAND, JobDefinition
from posthouse.worker.job import Job
from posthouse.worker.orm import fresh_async_connections, fresh_connections, uses_django
from posthouse.worker.outcomes import LeaseExpired, OutcomeWriter, PayloadMismatch, Released, output_text
from posthouse.worker.runners.threads import ThreadPool
from posthouse.worker.status import SharedStatus

_log = logging.getLogger("posthouse.worker")

DEADLINE_CHECK_INTERVAL_SECONDS = 0.1
SUSPECT_CRASHES = 2
"""A job is suspect after this many workers died while running it. Suspect jobs run one at a time. Must match
posthouse.settle.
"""


CALLS_PER_TURN = 32
"""Number of handler calls after which a slot yields to other tasks of the loop, even if no handler waits."""


STOP_GRACE = 2.5
"""Seconds that handlers have to clean up when their worker stops: a part of the 5 s after its drain."""


class Runner(Protocol):
    """Runs handlers in other processes; see runners/process/pool.py."""

    async def run(self, kind: str, attempts: Sequence[Attempt]) -> list[Any] | None: ...


class Executor:
    """The executor of claimed jobs, with a fixed number of slots."""

    def __init__(
        self,
        definitions: Mapping[str, JobDefinition],
        completer: Completer,
        definition_watcher: DefinitionWatcher,
        *,
        concurrency: int,
        result_limit: int,
        cancel_grace: float,
        crash_limit: int,
        leased: dict[str, Attempt],
        has_leases: asyncio.Event,
        processes: Runner | None = None,
        status: SharedStatus | None = None,
        address: Callable[[UUID], str] = lambda _: "",
    ) -> None:
        """Create the executor.

        The executors of a worker share ``leased`` and ``has_leases``, which is set while there are jobs in
        ``leased``. ``status`` shows a supervisor which handlers run. ``address`` returns the URL of a job's
        page in the console, or an empty string.
        """
        self._definitions = definitions
        self._completer = completer
        self._outcomes = OutcomeWriter(completer, definition_watcher, crash_limit, address)
        self._definition_watcher = definition_watcher
        self._concurrency = concurrency
        self._result_limit = result_limit
        self._cancel_grace = cancel_grace
        self._processes = processes
        self._status = status
        self._threads = ThreadPool("posthouse-job")
        self._pending: deque[list[Attempt]] = deque()
        self._open_batches: Counter[str] = Counter()
        self._in_batches = 0
        self._busy = 0
        self._draining = False
        self._capacity = asyncio.Event()
        self._capacity.set()
        self._loop = asyncio.get_running_loop()
        self._has_leases = has_leases
        self.leased = leased
        """All jobs whose lease this worker holds, by hex id. The heartbeat thread reads it."""
        self.finished = 0
        self.lease_grace = 0.0
        """How long jobs may continue after their lease could not be renewed: the server's grace period."""
        self.on_suspect_end: Callable[[], None] = self._capacity.set
        self.on_batch_end: Callable[[], None] = self._capacity.set

    @property
    def queued_count(self) -> int:
        """Number of handler calls whose jobs are claimed but not started; a batch is one call."""
        return len(self._pending)

    @property
    def calls(self) -> int:
        """Number of handler calls that have ended."""
        return self.finished - self._in_batches

    def open_batches(self, kind: str) -> int:
        """Return how many batches of a kind are claimed and not finished."""
        return self._open_batches[kind]

    @property
    def idle_slots(self) -> int:
        return max(0, self._concurrency - self._busy)

    @property
    def slots(self) -> int:
        return self._concurrency

    def resize(self, concurrency: int) -> None:
        """Change the number of slots."""
        self._concurrency = concurrency
        self._start_pending()

    @property
    def has_suspect(self) -> bool:
        return any(attempt.row.crashes >= SUSPECT_CRASHES for attempt in self.leased.values())

    async def wait_for_capacity(self) -> None:
        """Wait until there may be room, in a slot or in the prefetch queue."""
        self._capacity.clear()
        await self._capacity.wait()

    def signal_capacity(self) -> None:
        """Let wait_for_capacity return, so that its caller checks its own state."""
        self._capacity.set()

    def accept(self, attempts: Sequence[Attempt]) -> None:
        """Accept claimed jobs and start as many as there are free slots."""
        leased = self.leased
        for attempt in attempts:
            earlier = leased.get(attempt.hex_id)
            if earlier is not None:  # its lease was lost, and this worker claimed the job again
                self.interrupt(earlier, LeaseLost())
            leased[attempt.hex_id] = attempt
        self._pending.extend(self._group(attempts))
        self._has_leases.set()
        if self._draining:  # the claim was under way when the drain began
            self._release_pending()
        self._start_pending()

    def _owns_lease(self, attempt: Attempt) -> bool:
        """Return whether this attempt holds the lease.

        Compared by identity, because a later attempt of the job may have replaced this one.
        """
        return self.leased.get(attempt.hex_id) is attempt

    def _group(self, attempts: Iterable[Attempt]) -> Iterable[list[Attempt]]:
        """Yield single jobs one by one, and jobs of a batch kind in groups up to the batch size."""
        batches: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            size = self._definitions[attempt.row.kind].batch
            if size is None:
                yield [attempt]
                continue
            batch = batches.setdefault(attempt.row.kind, [])
            batch.append(attempt)
            if len(batch) == size:
                yield self._open_batch(batches.pop(attempt.row.kind))
        yield from map(self._open_batch, batches.values())

    def _open_batch(self, batch: list[Attempt]) -> list[Attempt]:
        self._open_batches[batch[0].row.kind] += 1
        return batch

    def _start_pending(self) -> None:
        while self._busy < self._concurrency and (group := self._next_group()):
            self._busy += 1
            self._loop.create_task(self._run_slot(group))
        self._capacity.set()

    def _next_group(self) -> list[Attempt] | None:
        """Return the jobs of the next handler call; None if there are none."""
        while self._pending:
            if group := self._still_leased(self._pending.popleft()):
                return group
        return None

    def _still_leased(self, claimed: list[Attempt]) -> list[Attempt]:
        """Return the jobs of a handler call that were not released since they were claimed."""
        leased = self.leased
        group = [attempt for attempt in claimed if leased.get(attempt.hex_id) is attempt]
        if not group:
            self._close_batch(claimed[0].row.kind)
        return group

    def _close_batch(self, kind: str) -> None:
        if self._definitions[kind].batch is not None:
            self._open_batches[kind] -= 1
            self.on_batch_end()

    async def _run_slot(self, claimed: list[Attempt]) -> None:
        """Run handler calls one after the other, each in its own context.

        One task serves many jobs, because a task per job costs 3 µs more.
        """
        task = asyncio.current_task()
        assert task is not None
        group = self._still_leased(claimed) or self._next_group()
        calls = 0
        try:
            while group:
                await in_own_context(self._run_group(group, task))
                # A cancellation that the handler did not notice must not reach the next one.
                if task.cancelling() or _is_stopped(group):
                    break
                self._capacity.set()
                calls += 1
                if calls % CALLS_PER_TURN == 0:
                    await asyncio.sleep(0)
                group = self._next_group() if self._busy <= self._concurrency else None
        finally:
            self._busy -= 1
            self._start_pending()

    async def _run_group(self, group: list[Attempt], task: asyncio.Task[None]) -> None:
        definition = self._definitions[group[0].row.kind]
        now = time.monotonic()
        for attempt in group:
            timeout = attempt.row.timeout_seconds
            timeout = definition.timeout if timeout is None else timeout
            attempt.deadline = None if timeout is None else now + timeout
            attempt.task = task
        if definition.batch is None:
            await self._run_one(definition, group[0])
        else:
            await self._run_batch(definition, group)

    async def _run_one(self, definition: JobDefinition, attempt: Attempt) -> None:
        mask_with(CallMask(self._definition_watcher, (attempt,)))
        try:
            try:
                self._definition_watcher.check(attempt)
                if self._processes is not None:
                    (value,) = await self._processes.run(attempt.row.kind, [attempt]) or (None,)
                else:
                    arguments = definition.arguments.read(attempt.row.payload)
                    positional = (Job(attempt),) if definition.arguments.takes_job else ()
                    value = await self._call(definition, [attempt], positional, arguments)
            finally:
                if attempt.has_reports:
                    await _flush_reports([attempt])
            self._finish_returned(attempt, definition, value)
        except InvalidPayload as error:
            self._finish_with(
                attempt,
                definition,
                attempt.stop_reason or await self._explain_mismatch(attempt, definition, error),
            )
        except BaseException as error:  # noqa: BLE001 - every exception is an outcome
            self._finish_with(attempt, definition, attempt.stop_reason or error)

    async def _run_batch(self, definition: JobDefinition, attempts: list[Attempt]) -> None:
        mask_with(CallMask(self._definition_watcher, attempts))
        size = len(attempts)
        try:
            attempts = [attempt for attempt in attempts if await self._accept_payload(attempt, definition)]
            if not attempts:
                return
            try:
                if self._processes is not None:
                    values: Any = await self._processes.run(definition.kind, attempts)
                else:
                    jobs = [Job(attempt) for attempt in attempts]
                    values = await self._call(definition, attempts, (jobs,), {})
            finally:
                await _flush_reports(attempts)
            for attempt, value in zip(attempts, _batch_results(definition, attempts, values), strict=True):
                self._finish_returned(attempt, definition, value)
        except BaseException as error:  # noqa: BLE001 - every exception is an outcome
            for attempt in attempts:
                if self._owns_lease(attempt):
                    self._finish_with(
                        attempt, definition, attempt.stop_reason or _error_for_job(attempt, error)
                    )
        finally:
            self._in_batches += size - 1
            self._close_batch(definition.kind)

    async def _explain_mismatch(
        self, attempt: Attempt, definition: JobDefinition, error: InvalidPayload
    ) -> Exception:
        """Return the error for a rejected payload: PayloadMismatch if it is meant for newer code."""
        try:
            newer = await self._definition_watcher.fits_newer_code(attempt, definition)
        except Exception:  # noqa: BLE001 - a definition stored by hand; the payload stays rejected
            newer = False
        return PayloadMismatch(str(error)) if newer else error

    async def _accept_payload(self, attempt: Attempt, definition: JobDefinition) -> bool:
        """Finish a job of a batch whose payload is invalid; the others continue without it."""
        try:
            self._definition_watcher.check(attempt)
            definition.arguments.read(attempt.row.payload)
        except InvalidPayload as error:
            self._finish_with(attempt, definition, await self._explain_mismatch(attempt, definition, error))
            return False
        except Exception as error:  # noqa: BLE001 - every exception is an outcome
            self._finish_with(attempt, definition, error)
            return False
        return True

    async def _call(
        self,
        definition: JobDefinition,
        attempts: Sequence[Attempt],
        positional: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> Any:
        if definition.is_async:
            running = definition.handler(*positional, **arguments)
            if self._status is not None:
                running = self._status.in_loop(attempts, running)
            if not uses_django():
                return await running
            with fresh_async_connections():
                return await running
        here = contextvars.copy_context()
        function = functools.partial(here.run, _run_in_thread, definition.handler, positional, arguments)
        if self._status is not None:
            function = functools.partial(self._status.in_thread, attempts, function)
        call = self._threads.start(function, self._loop)
        try:
            return await asyncio.shield(call.future)
        except asyncio.CancelledError:
            call.interrupt()
            # not canceled by the worker: the loop itself is closing
            if all(attempt.stop_reason is None for attempt in attempts):
                raise
        return await asyncio.shield(call.future)  # the slot is in use as long as the thread runs

    def _finish_returned(self, attempt: Attempt, definition: JobDefinition, value: Any) -> None:
        """Finish a job whose handler returned.

        A stop reason takes precedence over the return value, except when the worker only releases the job for
        shutdown.
        """
        if attempt.stop_reason is not None and not isinstance(attempt.stop_reason, Released):
            self._finish_with(attempt, definition, attempt.stop_reason)
            return
        if value is not None and isinstance(value, Snooze | Cancel | Fail | Exception):
            self._finish_with(attempt, definition, value)
            return
        try:
            result = None if value is None else encode_result(value, self._result_limit)
        except InvalidResult as error:
            self._finish_with(attempt, definition, error)
            return
        if not self._drop_lease(attempt):
            return
        output = None if attempt.command_output is None else output_text(attempt)
        followups = None if attempt.followups is None else attempt.followups_json
        self._completer.succeed(Success(attempt.hex_id, attempt.hex_token, result, followups, output))

    def _finish_with(self, attempt: Attempt, definition: JobDefinition, outcome: BaseException) -> None:
        """Finish a job whose handler raised or was stopped."""
        if self._drop_lease(attempt):
            self._outcomes.write(attempt, definition, outcome)

    def _drop_lease(self, attempt: Attempt) -> bool:
        """Drop the lease. Return False if the outcome was already reported."""
        if not self._owns_lease(attempt):
            return False
        del self.leased[attempt.hex_id]
        self.finished += 1
        if attempt.row.crashes >= SUSPECT_CRASHES:
            self.on_suspect_end()
        if attempt.is_finished:
            return False
        attempt.is_finished = True
        return True

    def interrupt(self, attempt: Attempt, reason: BaseException) -> None:
        """Stop a job: cancel its handler, and report the outcome after the grace period at the latest."""
        if attempt.stop_reason is not None or not self._owns_lease(attempt):
            return
        attempt.stop_reason = reason
        definition = self._definitions[attempt.row.kind]
        if attempt.task is None:
            self._finish_with(attempt, definition, reason)
            return
        if definition.batch is None or all(
            other.stop_reason is not None for other in self.leased.values() if other.task is attempt.task
        ):
            attempt.task.cancel()
        # a command always ends, and its processes must have ended before the outcome is reported
        if definition.runner != COMMAND:
            stopping = type(reason) is Released
            grace = min(self._cancel_grace, STOP_GRACE) if stopping else self._cancel_grace
            self._loop.call_later(grace, self._finish_with, attempt, definition, reason)

    def interrupt_all(self, reason: BaseException) -> None:
        for attempt in list(self.leased.values()):
            self.interrupt(attempt, reason)

    def drain(self) -> None:
        """Start no more jobs and release those that have not started."""
        self._draining = True
        self._release_pending()

    def _release_pending(self) -> None:
        while self._pending:
            group = self._pending.popleft()
            self._close_batch(group[0].row.kind)
            for attempt in group:
                self._finish_with(attempt, self._definitions[attempt.row.kind], Released())

    async def enforce_deadlines(self) -> None:
        """Stop jobs that exceeded their timeout or whose lease could not be renewed in time."""
        while True:
            await self._has_leases.wait()
            await asyncio.sleep(DEADLINE_CHECK_INTERVAL_SECONDS)
            now = time.monotonic()
            for attempt in list(self.leased.values()):
                grace = 0.0 if attempt.is_lease_lost else self.lease_grace
                if attempt.lease_expires_at + grace < now and not attempt.is_finished:
                    self.interrupt(attempt, LeaseExpired())
                elif attempt.deadline is not None and attempt.deadline < now:
                    self.interrupt(
                        attempt, TimedOut(f"the handler exceeded its timeout in attempt {attempt.attempt}")
                    )
            if not self.leased:
                self._has_leases.clear()

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs."""
        while self._busy:
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self._threads.close()


def _run_in_thread(
    handler: Callable[..., Any], positional: tuple[Any, ...], arguments: dict[str, Any]
) -> Any:
    with fresh_connections():
        return handler(*positional, **arguments)


def _is_stopped(attempts: Sequence[Attempt]) -> bool:
    """Return whether the worker stopped one of the attempts. any() takes three times as long as the loop."""
    for attempt in attempts:  # noqa: SIM110
        if attempt.stop_reason is not None:
            return True
    return False


async def _flush_reports(attempts: Sequence[Attempt]) -> None:
    """Flush the reports of jobs before their outcome is written."""
    reporting = [attempt for attempt in attempts if attempt.has_reports]
    if reporting:
        await asyncio.gather(*(attempt.services.flush(attempt) for attempt in reporting))


def _error_for_job(attempt: Attempt, error: BaseException) -> BaseException:
    """Return the outcome of one job after its batch raised. A lost lease of another job only releases it."""
    return Released() if isinstance(error, LeaseLost) and not attempt.is_lease_lost else error


def _batch_results(definition: JobDefinition, attempts: list[Attempt], values: Any) -> list[Any]:
    answers = [None] * len(attempts) if values is None else list(values)
    if len(answers) != len(attempts):
        raise ConfigurationError(
            f"batch handler {definition.kind} received {len(attempts)} jobs "
            f"but returned {len(answers)} results"
        )
    return answers
