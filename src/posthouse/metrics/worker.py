"""Metrics of one worker or keeper, and the HTTP server that exposes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from posthouse.dispatch import Reader, observe_readers
from posthouse.errors import ConfigurationError
from posthouse.keeper.service import set_service_observer
from posthouse.metrics import catalogue as metrics
from posthouse.metrics.registry import (
    ATTEMPT_BUCKETS,
    REQUEST_BUCKETS,
    counter,
    gauge,
    histogram,
    process_registry,
)
from posthouse.worker.attempt import Attempt
from posthouse.worker.executor import Executor
from posthouse.worker.observers import add_observer


class _Attempts:
    def __init__(self, meter: WorkerMetrics) -> None:
        self._meter = meter
        self._began = time.perf_counter()

    def ended(self, attempt: Attempt, outcome: str) -> None:
        self._meter.ended(attempt.row.kind, outcome, time.perf_counter() - self._began)


class WorkerMetrics:
    """An observer of workers: see posthouse.worker.observers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = counter(metrics.ATTEMPTS, registry)
        self._seconds = histogram(metrics.ATTEMPT_SECONDS, registry, ATTEMPT_BUCKETS)
        self._claimed = counter(metrics.CLAIMED, registry)
        self._claims = histogram(metrics.CLAIM_SECONDS, registry, REQUEST_BUCKETS)
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
    def running(self, attempts: Sequence[Attempt]) -> Iterator[_Attempts]:  # noqa: ARG002 - each is counted at its end
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
        """Return the number of leased jobs.

        Executors of one worker share leases, so each job is counted once.
        """
        return len({id(job) for each in self._executors for job in list(each.leased.values())})


class KeeperMetrics:
    """An observer of keeper services: see posthouse.keeper.service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = histogram(metrics.SERVICE_SECONDS, registry, REQUEST_BUCKETS)
        self._failures = counter(metrics.SERVICE_FAILURES, registry)

    def __call__(self, service: str, seconds: float, failed: bool) -> None:
        self._seconds.labels(service).observe(seconds)
        if failed:
            self._failures.labels(service).inc()


LIVE_PATH = "/livez"


def start_collecting(*, worker: bool, keeper: bool = True) -> CollectorRegistry:
    """Return a registry that measures this process, its keeper and its worker."""
    registry = process_registry()
    if keeper:
        set_service_observer(KeeperMetrics(registry))
    if worker:
        add_observer(WorkerMetrics(registry))
    return registry


def serve(host: str, port: int, registry: CollectorRegistry, errors: Callable[[], Iterable[str]]) -> int:
    """Serve metrics and /livez in a thread; return the port. Port 0 selects a free one.

    /livez answers 200, or 503 with the ``errors``, one per line.
    """
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != LIVE_PATH:
            found: Iterable[bytes] = metrics(environ, start)
            return found
        text = "\n".join(errors())
        start(
            "503 Service Unavailable" if text else "200 OK", [("Content-Type", "text/plain; charset=utf-8")]
        )
        return [f"{text or 'ok'}\n".encode()]

    try:
        server = make_server(host, port, answer, ThreadingWSGIServer, handler_class=_Silent)
    except OSError as error:
        raise ConfigurationError(
            f"cannot serve metrics on {host} port {port}: {error.strerror or error}; "
            "choose another with --metrics-port"
        ) from None
    threading.Thread(target=server.serve_forever, name="posthouse-metrics", daemon=True).start()
    return int(server.server_port)


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do not log requests."""
