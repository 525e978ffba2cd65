"""Metrics of one keeper."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from posthouse.metrics import catalogue as metrics
from posthouse.metrics.process import REQUEST_BOUNDS, counter, histogram


class KeeperMetrics:
    """An observer of keeper steps: see posthouse.keeper.service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = histogram(metrics.STEP_SECONDS, registry, REQUEST_BOUNDS)
        self._failures = counter(metrics.STEP_FAILURES, registry)

    def __call__(self, step: str, seconds: float, failed: bool) -> None:
        self._seconds.labels(step).observe(seconds)
        if failed:
            self._failures.labels(step).inc()
