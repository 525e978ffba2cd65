"""Metrics of one process, made from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector

from posthouse.metrics.catalogue import Metric

REQUEST_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ATTEMPT_BOUNDS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)


class Registry(CollectorRegistry):
    """A registry without ``_created`` samples, which double the number of series. The switch of the client
    library would also affect the application's own metrics.
    """

    def collect(self) -> Iterator[Family]:
        for family in super().collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def process_registry() -> CollectorRegistry:
    """Return a registry with the standard process metrics: memory, CPU, files."""
    registry = Registry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    return Counter(metric.base, metric.help, metric.labels, registry=registry)


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    return Gauge(metric.name, metric.help, metric.labels, registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry, bounds: tuple[float, ...]) -> Histogram:
    return Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=bounds)
