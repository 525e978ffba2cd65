"""Metrics of one worker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from prometheus_client import CollectorRegistry

from posthouse.dispatch import Reader, observe_readers
from posthouse.metrics import catalogue as metrics
from posthouse.metrics.process import ATTEMPT_BOUNDS, REQUEST_BOUNDS, counter, gauge, histogram
from posthouse.worker.executor import Executor
from posthouse.worker.job import Job


class _Attempts:
    def __init__(self, meter: WorkerMetrics) -> None:
        self._meter = meter
        self._began = time.perf_counter()

    def ended(self, job: Job, outcome: str) -> None:
        self._meter.ended(job.kind, outcome, time.perf_counter() - self._began)


class WorkerMetrics:
    """An observer of workers: see posthouse.worker.observing."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = counter(metrics.ATTEMPTS, registry)
        self._seconds = histogram(metrics.ATTEMPT_SECONDS, registry, ATTEMPT_BOUNDS)
        self._claimed = counter(metrics.CLAIMED, registry)
        self._claims = histogram(metrics.CLAIM_SECONDS, registry, REQUEST_BOUNDS)
        self._executors: list[Executor] = []
        self._readers: WeakSet[Reader] = WeakSet()
        observe_readers(self._readers.add)
        gauge(metrics.HINTS, registry).set_function(lambda: sum(each.hints for each in list(self._readers)))
        gauge(metrics.CIRCUITS_OPEN, registry).set_function(
            lambda: sum(each.breaker.state != "closed" for each in list(self._readers))
        )
        gauge(metrics.IN_FLIGHT, registry).set_function(self._in_flight)
        gauge(metrics.SLOTS, registry).set_function(lambda: sum(each.slots for each in self._executors))

    @contextmanager
    def running(self, jobs: Sequence[Job]) -> Iterator[_Attempts]:  # noqa: ARG002 - each is counted at its end
        yield _Attempts(self)

    def ended(self, kind: str, outcome: str, seconds: float) -> None:
        self._attempts.labels(outcome).inc()
        self._seconds.labels(kind).observe(seconds)

    def claimed(self, jobs: int, seconds: float) -> None:
        self._claimed.inc(jobs)
        self._claims.observe(seconds)

    def serves(self, executor: Executor) -> None:
        self._executors.append(executor)

    def _in_flight(self) -> float:
        """All executors of a worker share what they hold."""
        return len({id(job) for each in self._executors for job in list(each.held.values())})
