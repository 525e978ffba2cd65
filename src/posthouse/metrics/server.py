"""Metrics of a server: its requests, and a snapshot of the database that is the same on every server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from psycopg_pool import AsyncConnectionPool

from posthouse.insights.alerts import AlertCount, alert_counts
from posthouse.insights.overview import worker_counts
from posthouse.insights.queues import QueueCounts, queue_counts
from posthouse.insights.stats import (
    JobTotals,
    TimeTotals,
    bound_of,
    job_totals,
    paused_queues,
    time_totals,
    totals_age,
)
from posthouse.metrics import catalogue as metrics
from posthouse.metrics.registry import REQUEST_BUCKETS, gauge, histogram, process_registry
from posthouse.settings import Settings
from posthouse.storage.queries import Db, fetch_row

MAX_SERIES = 200
"""Maximum number of queues and kinds with series of their own.

Tenants can create any number of both.
"""
OTHER = "other"
OCTAVES = range(4, 27)
"""Bounds from 1.6 ms to 1 h 52 min, each twice the previous one.

Buckets of the samples end at these bounds, so no bucket has to be split by an estimate.
"""
STATUSES = ("ready", "scheduled", "blocked", "running")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of all values."""

    queue_counts: list[QueueCounts]
    jobs: list[JobTotals]
    times: list[TimeTotals]
    age: float | None
    workers: dict[str, int]
    keepers: int
    paused: list[str]
    alerts: list[AlertCount]
    tenants: int


async def take_snapshot(connection: Db, settings: Settings) -> Snapshot:
    keepers = await fetch_row(connection, "doctor_keepers", grace=0.0, limit=0)
    return Snapshot(
        queue_counts=await queue_counts(connection, by_tenant=True),
        jobs=await job_totals(connection, tenants=settings.metrics_max_tenants, lines=MAX_SERIES),
        times=await time_totals(connection, lines=MAX_SERIES),
        age=await totals_age(connection),
        workers=await worker_counts(connection, offline_after=settings.offline_after),
        keepers=keepers["sessions"],
        paused=await paused_queues(connection),
        alerts=await alert_counts(connection),
        tenants=settings.metrics_max_tenants,
    )


class DatabaseMetrics(Collector):
    """A collector of the last snapshot, which the caller refreshes before collecting."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None

    def collect(self) -> Iterator[Family]:
        if self.snapshot is None:
            return
        yield from _queues(self.snapshot)
        yield from _fleet(self.snapshot)
        yield from _counters(self.snapshot.jobs)
        yield _histogram(metrics.WAIT, self.snapshot.times, "wait")
        yield _histogram(metrics.RUN, self.snapshot.times, "run")
        yield from _alerts(self.snapshot.alerts)


def _gauge(metric: metrics.Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _counter(metric: metrics.Metric) -> CounterMetricFamily:
    return CounterMetricFamily(metric.base, metric.help, labels=metric.labels)


def _queues(snapshot: Snapshot) -> Iterator[Family]:
    tenants = names_to_show(
        (item.tenant_id for item in snapshot.jobs),
        (c.tenant_id for c in snapshot.queue_counts),
        snapshot.tenants,
    )
    queues = names_to_show(
        (item.queue for item in snapshot.jobs), (c.queue for c in snapshot.queue_counts), MAX_SERIES
    )
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    oldest: dict[tuple[str, str], float] = {}
    for item in snapshot.queue_counts:
        pair = (
            item.tenant_id if item.tenant_id in tenants else OTHER,
            item.queue if item.queue in queues else OTHER,
        )
        for status in STATUSES:
            counts[*pair, status] += getattr(item, status)
        oldest[pair] = max(oldest.get(pair, 0.0), item.oldest_ready_seconds or 0.0)
    jobs, ages, paused = _gauge(metrics.QUEUE_JOBS), _gauge(metrics.OLDEST_READY), _gauge(metrics.PAUSED)
    for labels, count in counts.items():
        jobs.add_metric(labels, count)
    for where, age in oldest.items():
        ages.add_metric(where, age)
    for queue in snapshot.paused[:MAX_SERIES]:
        paused.add_metric((queue,), 1)
    yield from (jobs, ages, paused)


def names_to_show(before: Iterable[str], now: Iterable[str], most: int) -> set[str]:
    """Return the names shown as labels: first those that have counters, then others up to the maximum."""
    names = {name for name in before if name != OTHER}
    return names | set(sorted(set(now) - names)[: max(0, most - len(names))])


def _fleet(snapshot: Snapshot) -> Iterator[Family]:
    workers, keepers = _gauge(metrics.WORKERS), _gauge(metrics.KEEPERS)
    for status, count in snapshot.workers.items():
        workers.add_metric((status,), count)
    keepers.add_metric((), snapshot.keepers)
    yield from (workers, keepers)
    if snapshot.age is not None:
        age = _gauge(metrics.TOTALS_AGE)
        age.add_metric((), snapshot.age)
        yield age


def _counters(jobs: Sequence[JobTotals]) -> Iterator[Family]:
    plain = (
        (metrics.ENQUEUED, "arrivals"),
        (metrics.FAILURES, "failures"),
        (metrics.RETRIES, "retries"),
        (metrics.RESCUES, "rescues"),
    )
    for metric, field in plain:
        family = _counter(metric)
        for item in jobs:
            family.add_metric((item.tenant_id, item.queue, item.kind), getattr(item, field))
        yield family
    finished = _counter(metrics.FINISHED)
    for item in jobs:
        for status in ("succeeded", "failed", "dead_letter", "canceled"):
            finished.add_metric((item.tenant_id, item.queue, item.kind, status), getattr(item, status))
    yield finished


def _histogram(metric: metrics.Metric, times: Sequence[TimeTotals], what: str) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    lines: dict[tuple[str, str], list[TimeTotals]] = defaultdict(list)
    for item in times:
        if item.what == what:
            lines[item.queue, item.kind].append(item)
    for labels, parts in lines.items():
        buckets = [
            (f"{bound_of(octave):g}", float(sum(p.attempts for p in parts if p.octave <= octave)))
            for octave in OCTAVES
        ]
        buckets.append(("+Inf", float(sum(part.attempts for part in parts))))
        family.add_metric(labels, buckets, sum(part.seconds for part in parts))
    return family


def _alerts(alerts: Sequence[AlertCount]) -> Iterator[Family]:
    raised, held, messages = (
        _counter(metrics.ALERTS), _counter(metrics.ALERTS_HELD), _counter(metrics.ALERT_MESSAGES)
    )  # fmt: skip
    for item in alerts:
        raised.add_metric((item.type, item.severity), item.raised)
        held.add_metric((item.type, item.severity), item.suppressed)
        messages.add_metric((item.type, "sent"), item.sent)
        messages.add_metric((item.type, "failed"), item.failed)
    yield from (raised, held, messages)


METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


class ServerMetrics:
    def __init__(self) -> None:
        registry = self._registry = process_registry()
        self._database = DatabaseMetrics()
        registry.register(self._database)
        self._requests = histogram(metrics.REQUESTS, registry, REQUEST_BUCKETS)
        self._pool = gauge(metrics.POOL, registry)
        self._waiting = gauge(metrics.POOL_WAITING, registry)
        self._streams = gauge(metrics.STREAMS, registry)
        gauge(metrics.BUILD, registry).labels(version("posthouse")).set(1)

    def request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Record a request.

        Unknown paths and methods share one series, so that clients cannot create new ones.
        """
        shown_method = method if method in METHODS else "other"
        self._requests.labels(shown_method, route or "none", status).observe(seconds)

    def update(self, snapshot: Snapshot | None, pool: AsyncConnectionPool, streams: int) -> None:
        self._database.snapshot = snapshot
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
