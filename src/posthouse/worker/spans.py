"""Trace spans of a worker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from posthouse.tracing import SYSTEM, Traces, start_tracing
from posthouse.worker.executor import Executor
from posthouse.worker.job import Job
from posthouse.worker.observing import observe_with, observers

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_FINE = {"succeeded", "snoozed", "released"}


class _Attempt:
    def __init__(self, traces: Traces, span: Span) -> None:
        self._traces = traces
        self._span = span

    def ended(self, job: Job, outcome: str) -> None:  # noqa: ARG002 - a batch has one span
        self._span.set_attribute("posthouse.outcome", outcome)
        if outcome not in _FINE:
            self._traces.fail(self._span, outcome)


class Spans:
    """Spans of a job's wait and attempts, as children of the span that enqueued it; a batch links to them."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces

    @contextmanager
    def running(self, jobs: Sequence[Job]) -> Iterator[_Attempt]:
        first = jobs[0]
        parent = self._traces.from_text(first.trace if len(jobs) == 1 else None)
        links = [job.trace for job in jobs if job.trace] if len(jobs) > 1 else []
        if len(jobs) == 1 and first.trace:
            since = max(first.queued_at, first.scheduled_for)
            self._traces.past(f"wait {first.kind}", parent, int(since.timestamp() * 1e9), time.time_ns())
        with self._traces.span(
            f"run {first.kind}", "CONSUMER", _about(jobs), parent=parent, links=links
        ) as span:
            yield _Attempt(self._traces, span)

    def claimed(self, jobs: int, seconds: float) -> None:
        """Do nothing: most claims are empty and belong to no job."""

    def serves(self, executor: Executor) -> None:
        """Do nothing."""


def trace_workers() -> None:
    """Trace the workers that this process creates from now on."""
    if not any(isinstance(observer, Spans) for observer in observers()):
        observe_with(Spans(start_tracing()))


def _about(jobs: Sequence[Job]) -> dict[str, Any]:
    first = jobs[0]
    shared = {"messaging.system": SYSTEM, "messaging.operation.type": "process", "posthouse.kind": first.kind}
    if len(jobs) > 1:
        return {**shared, "messaging.batch.message_count": len(jobs)}
    return {
        **shared,
        "messaging.message.id": str(first.id),
        "posthouse.queue": first.queue,
        "posthouse.tenant_id": first.tenant,
        "posthouse.attempt": first.attempt,
        "correlation_id": first.correlation_id,
    }
