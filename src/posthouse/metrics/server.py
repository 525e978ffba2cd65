"""Metrics of a server: those from the database, and its own requests."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client.exposition import choose_encoder
from psycopg_pool import AsyncConnectionPool

from posthouse.metrics import catalogue as metrics
from posthouse.metrics.database import DatabaseMetrics, Whole
from posthouse.metrics.process import REQUEST_BOUNDS, gauge, histogram, process_registry

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


class ServerMetrics:
    def __init__(self) -> None:
        registry = self._registry = process_registry()
        self._database = DatabaseMetrics()
        registry.register(self._database)
        self._requests = histogram(metrics.REQUESTS, registry, REQUEST_BOUNDS)
        self._pool = gauge(metrics.POOL, registry)
        self._waiting = gauge(metrics.POOL_WAITING, registry)
        self._streams = gauge(metrics.STREAMS, registry)
        gauge(metrics.BUILD, registry).labels(version("posthouse")).set(1)

    def request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Record a request. Unknown paths and methods share one series: clients cannot create more."""
        named = method if method in METHODS else "other"
        self._requests.labels(named, route or "none", status).observe(seconds)

    def note(self, whole: Whole | None, pool: AsyncConnectionPool, streams: int) -> None:
        self._database.whole = whole
        found = pool.get_stats()
        idle = found.get("pool_available", 0)
        self._pool.labels("idle").set(idle)
        self._pool.labels("busy").set(found.get("pool_size", 0) - idle)
        self._waiting.set(found.get("requests_waiting", 0))
        self._streams.set(streams)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return the response body and its content type for an Accept header."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
