"""The metrics of several processes as one: those of a supervisor and its children."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from posthouse.metrics.process import Registry

_LOWEST = {"process_start_time_seconds", "process_max_fds"}
_KEPT = {"counter", "histogram"}
"""Types whose values must not drop when a process has ended."""


class MergedMetrics(Collector):
    """Adds up the metrics of ``own`` and of the texts that ``others`` returns."""

    def __init__(self, own: CollectorRegistry, others: Callable[[], Sequence[str]]) -> None:
        self._own = own
        self._others = others
        self._ended: list[Metric] = []

    def add_ended(self, text: str) -> None:
        """Keep the counts of a process that has ended."""
        families = [family for family in text_string_to_metric_families(text) if family.type in _KEPT]
        self._ended = merge([self._ended, families])

    def collect(self) -> Iterator[Metric]:
        texts = [generate_latest(self._own).decode(), *self._others()]
        families = [list(text_string_to_metric_families(text)) for text in texts]
        yield from merge([*families, self._ended])

    def registry(self) -> CollectorRegistry:
        registry = Registry()
        registry.register(self)
        return registry


def merge(processes: Iterable[Sequence[Metric]]) -> list[Metric]:
    """Return each family once, with the sums of its samples."""
    merged: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for families in processes:
        for family in families:
            merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
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
