"""Observers of a worker: metrics and trace spans.

A worker without observers is built from the plain classes and runs none of this code.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from posthouse.storage.claimed import decode_time
from posthouse.storage.leases import Claim, Settlement, Success
from posthouse.tracing import SYSTEM, Traces, start_tracing
from posthouse.worker.attempt import Attempt
from posthouse.worker.batches import BatchClaim
from posthouse.worker.completer import Completer
from posthouse.worker.executor import Executor
from posthouse.worker.fetcher import Fetcher
from posthouse.worker.handlers import JobDefinition

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class Running(Protocol):
    """One call of a handler, with one job or a batch."""

    def ended(self, attempt: Attempt, outcome: str) -> None: ...


class Observer(Protocol):
    """An observer of a worker."""

    def running(self, attempts: Sequence[Attempt]) -> AbstractContextManager[Running]:
        """Return a context manager that is entered while a handler runs."""
        ...

    def claimed(self, jobs: int, seconds: float) -> None: ...
    def serves(self, executor: Executor) -> None:
        """Handle a new executor of the worker, before it starts."""
        ...


_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Observe every worker that this process creates from now on."""
    _observers.append(observer)


def observers() -> Sequence[Observer]:
    return tuple(_observers)


def observed() -> ObserverGroup | None:
    return ObserverGroup(tuple(_observers)) if _observers else None


class ObserverGroup:
    """Several observers as one.

    Passes on the outcome of each job, which is known before the handler's context ends.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._running: dict[str, str | None] = {}

    @contextmanager
    def running(self, attempts: Sequence[Attempt]) -> Iterator[None]:
        self._running.update(dict.fromkeys(attempt.hex_id for attempt in attempts))
        with ExitStack() as stack:
            seen = [stack.enter_context(observer.running(attempts)) for observer in self._observers]
            try:
                yield
            finally:
                for attempt in attempts:
                    # No outcome is reported for jobs that the handler committed, or whose lease was lost.
                    outcome = self._running.pop(attempt.hex_id, None) or (
                        "lost" if attempt.is_lease_lost else "succeeded"
                    )
                    for each in seen:
                        each.ended(attempt, outcome)

    def reported(self, hex_id: str, outcome: str) -> None:
        if hex_id in self._running:
            self._running[hex_id] = outcome

    def claimed(self, jobs: int, seconds: float) -> None:
        for observer in self._observers:
            observer.claimed(jobs, seconds)

    def serves(self, executor: Executor) -> None:
        for observer in self._observers:
            observer.serves(executor)


class ObservedExecutor(Executor):
    def __init__(self, *parts: Any, observers: ObserverGroup, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._observers = observers
        observers.serves(self)

    async def _run_one(self, definition: JobDefinition, attempt: Attempt) -> None:
        with self._observers.running((attempt,)):
            await super()._run_one(definition, attempt)

    async def _run_batch(self, definition: JobDefinition, attempts: list[Attempt]) -> None:
        with self._observers.running(attempts):
            await super()._run_batch(definition, attempts)


class ObservedCompleter(Completer):
    def __init__(self, *parts: Any, observers: ObserverGroup) -> None:
        super().__init__(*parts)
        self._observers = observers

    def succeed(self, report: Success) -> None:
        self._observers.reported(report.id, "succeeded")
        super().succeed(report)

    def settle(self, report: Settlement) -> None:
        self._observers.reported(report.id, report.outcome)
        super().settle(report)


class ObservedFetcher(Fetcher):
    def __init__(self, *parts: Any, observers: ObserverGroup, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._observers = observers

    async def _claim(self, want: int, lane_cursors: dict[int, int], batch: BatchClaim | None = None) -> Claim:
        began = time.perf_counter()
        claim = await super()._claim(want, lane_cursors, batch)
        self._observers.claimed(claim.size, time.perf_counter() - began)
        return claim


_FINE = {"succeeded", "snoozed", "released"}


class _AttemptSpan:
    def __init__(self, traces: Traces, span: Span) -> None:
        self._traces = traces
        self._span = span

    def ended(self, attempt: Attempt, outcome: str) -> None:  # noqa: ARG002 - a batch has one span
        self._span.set_attribute("posthouse.outcome", outcome)
        if outcome not in _FINE:
            self._traces.fail(self._span, outcome)


class TracingObserver:
    """An observer that records the wait and the attempts of each job as spans.

    The spans are children of the span that enqueued the job. The span of a batch links to these spans.
    """

    def __init__(self, traces: Traces) -> None:
        self._traces = traces

    @contextmanager
    def running(self, attempts: Sequence[Attempt]) -> Iterator[_AttemptSpan]:
        first = attempts[0]
        parent = self._traces.from_text(first.row.trace if len(attempts) == 1 else None)
        links = [attempt.row.trace for attempt in attempts if attempt.row.trace] if len(attempts) > 1 else []
        if len(attempts) == 1 and first.row.trace:
            since = max(decode_time(first.row.queued_at), decode_time(first.row.scheduled_for))
            self._traces.past(f"wait {first.row.kind}", parent, int(since.timestamp() * 1e9), time.time_ns())
        with self._traces.span(
            f"run {first.row.kind}", "CONSUMER", _about(attempts), parent=parent, links=links
        ) as span:
            yield _AttemptSpan(self._traces, span)

    def claimed(self, jobs: int, seconds: float) -> None:
        """Do nothing: most claims are empty and belong to no job."""

    def serves(self, executor: Executor) -> None:
        """Do nothing."""


def enable_worker_tracing() -> None:
    """Trace the workers that this process creates from now on."""
    if not any(isinstance(observer, TracingObserver) for observer in observers()):
        add_observer(TracingObserver(start_tracing()))


def _about(attempts: Sequence[Attempt]) -> dict[str, Any]:
    first = attempts[0]
    shared = {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "process",
        "posthouse.kind": first.row.kind,
    }
    if len(attempts) > 1:
        return {**shared, "messaging.batch.message_count": len(attempts)}
    return {
        **shared,
        "messaging.message.id": str(first.id),
        "posthouse.queue": first.row.queue,
        "posthouse.tenant_id": first.row.tenant_id,
        "posthouse.attempt": first.attempt,
        "correlation_id": first.row.correlation_id,
    }
