"""Registries of one or several processes, and metrics created from the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from posthouse.metrics.catalogue import Metric

REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ATTEMPT_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)


class Registry(CollectorRegistry):
    """A registry without ``_created`` samples, which double the number of series.

    The client library's switch is not used, because it would also affect the application's own metrics.
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


_LOWEST = {"process_start_time_seconds", "process_max_fds"}
_KEPT = {"counter", "histogram"}
"""Types of metrics whose values must not drop when a process ends."""


class MergedMetrics(Collector):
    """A collector that adds up the metrics of ``own`` and of the texts that ``others`` returns."""

    def __init__(self, own: CollectorRegistry, others: Callable[[], Sequence[str]]) -> None:
        self._own = own
        self._others = others
        self._ended: list[Family] = []

    def add_ended(self, text: str) -> None:
        """Keep the counts of a process that has ended."""
        families = [family for family in text_string_to_metric_families(text) if family.type in _KEPT]
        self._ended = merge([self._ended, families])

    def collect(self) -> Iterator[Family]:
        texts = [generate_latest(self._own).decode(), *self._others()]
        families = [list(text_string_to_metric_families(text)) for text in texts]
        yield from merge([*families, self._ended])

    def registry(self) -> CollectorRegistry:
        registry = Registry()
        registry.register(self)
        return registry


def merge(processes: Iterable[Sequence[Family]]) -> list[Family]:
    """Return each family once, with the sums of its samples."""
    merged: dict[str, Family] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for families in processes:
        for family in families:
            merged.setdefault(family.name, Family(family.name, family.documentation, family.type))
            sums = values.setdefault(family.name, {})
            for sample in family.samples:
                key = (sample.name, tuple(sample.labels.items()))
                if family.name in _LOWEST:
                    sums[key] = min(sample.value, sums.get(key, sample.value))
                else:
                    sums[key] = sums.get(key, 0.0) + sample.value
    for name, family in merged.items():
        family.samples = [
            Sample(sample, dict(labels), value) for (sample, labels), value in values[name].items()
        ]
    return list(merged.values())
