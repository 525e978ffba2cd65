"""Samples over time with percentiles of durations, and counters for metrics.

Histograms of durations can be added, and percentiles read from the sum. There are eight buckets per doubling;
posthouse.bucket assigns durations to them. The counters are identical from every process and after every
restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from posthouse.errors import ConfigurationError
from posthouse.storage.queries import Db, database_now, fetch, fetch_rows, fetch_value

_MIN_SECONDS = 0.0001
_PER_DOUBLING = 8
PRECISION = 2 ** (0.5 / _PER_DOUBLING) - 1
"""Maximum relative error of a percentile: 4.4 %."""


class Histogram:
    """The number of durations in each bucket."""

    __slots__ = ("_counts",)

    def __init__(self, buckets: Iterable[int] = (), counts: Iterable[int] = ()) -> None:
        self._counts: Counter[int] = Counter()
        for bucket, count in zip(buckets, counts, strict=True):
            self._counts[bucket] += count

    @classmethod
    def sum(cls, parts: Iterable[Histogram]) -> Histogram:
        whole = cls()
        for part in parts:
            whole.add(part)
        return whole

    def add(self, other: Histogram) -> None:
        self._counts.update(other._counts)

    def __len__(self) -> int:
        return self._counts.total()

    def quantile(self, share: float) -> float | None:
        """Return the duration in seconds that this share of the durations does not exceed; None if empty."""
        left = share * len(self)
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return middle(bucket)
        return None


def middle(bucket: int) -> float:
    """Return the geometric middle of a bucket in seconds."""
    return _MIN_SECONDS * 2 ** ((bucket - 0.5) / _PER_DOUBLING) if bucket > 0 else _MIN_SECONDS


COLUMNS = ("tenant", "queue", "kind")
STEPS = ((2 * 3600, 60), (12 * 3600, 300))
LONG_STEP = 3600
MINUTE = 60
MAX_SPAN_SECONDS = 366 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class StatPoint:
    """An interval of ``seconds`` from ``at`` on. Waits and run times are in seconds.

    ``ended``, ``succeeded``, ``failed`` and ``dead_letter`` count jobs, ``failures`` attempts. A wait lasts
    from when a job could start until it started; it is unknown for jobs that waited for others.
    ``ready``, ``waiting``, ``running`` and ``oldest_seconds`` are the values at the end of the interval;
    None if no keeper ran then.
    """

    at: datetime
    seconds: int
    arrivals: int
    ended: int
    succeeded: int
    failed: int
    dead_letter: int
    failures: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None
    ready: int | None
    waiting: int | None
    running: int | None
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of a chart: a point per interval, and the total.

    Fields by which the chart is not split are None.
    """

    tenant: str | None
    queue: str | None
    kind: str | None
    points: list[StatPoint]
    total: StatPoint


_Key: TypeAlias = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class _StatsRow:
    row: dict[str, Any]
    wait: Histogram
    run: Histogram


def step_for(span: float) -> int:
    """Return the seconds between two points of a chart for this period: a minute, five, or an hour."""
    return next((step for longest, step in STEPS if span <= longest), LONG_STEP)


async def series(
    connection: Db,
    *,
    span: float = 3600.0,
    until: datetime | None = None,
    step: int | None = None,
    by: Sequence[str] = ("queue", "kind"),
    tenant: str | None = None,
    queue: str | None = None,
    kind: str | None = None,
) -> list[Series]:
    """Return the last ``span`` seconds before ``until`` (now), split by tenant, queue, kind, or none of them.

    Empty points are included, so that all series have the same steps.
    """
    check_series(span, step, by)
    step = step or step_for(span)
    since, end = _bounds(until or await database_now(connection), span, step)
    steps = {"since": since, "until": end, "step": step}
    known = {row["at"] for row in await fetch_rows(connection, "samples_complete_steps", **steps)}
    rows = await fetch_rows(
        connection, "samples_series", by=list(by), tenant=tenant, queue=queue, kind=kind, **steps
    )
    lines: dict[_Key, list[_StatsRow]] = {}
    for row in rows:
        lines.setdefault((row["tenant"], row["in_queue"], row["of_kind"]), []).append(_part(row))
    axis = _TimeAxis(since, step, round((end - since).total_seconds() / step), known)
    return [axis.line(key, parts) for key, parts in lines.items()]


def check_series(span: float, step: int | None, by: Sequence[str]) -> None:
    """Raise ConfigurationError for parameters that ``series`` does not support."""
    if unknown := [name for name in by if name not in COLUMNS]:
        raise ConfigurationError(f"invalid split {unknown[0]!r}: use {', '.join(COLUMNS)}")
    if not MINUTE <= span <= MAX_SPAN_SECONDS:
        raise ConfigurationError("the period must be between one minute and one year")
    if step is not None and (step < MINUTE or step % MINUTE):
        raise ConfigurationError(f"invalid step {step} s: use a whole number of minutes")


def _bounds(now: datetime, span: float, step: int) -> tuple[datetime, datetime]:
    """Return the bounds of the chart in whole steps. The current step includes only full minutes."""
    past = now.timestamp() % step
    end = now - timedelta(seconds=past) + timedelta(seconds=step if step > MINUTE and past else 0)
    return end - timedelta(seconds=-(-span // step) * step), end


def _part(row: dict[str, Any]) -> _StatsRow:
    wait = Histogram(row["wait_buckets"] or (), row["wait_counts"] or ())
    return _StatsRow(row, wait, Histogram(row["run_buckets"] or (), row["run_counts"] or ()))


class _TimeAxis:
    """The steps of a chart, and the steps at whose end the backlog is known."""

    def __init__(self, since: datetime, step: int, count: int, known: set[datetime]) -> None:
        self._step = step
        self._moments = [since + timedelta(seconds=step) * number for number in range(count)]
        self._known = known

    def line(self, key: _Key, parts: list[_StatsRow]) -> Series:
        found = {part.row["at"]: part for part in parts}
        points = [
            _point(
                moment,
                self._step,
                [found[moment]] if moment in found else [],
                self._backlog_at(moment, found),
            )
            for moment in self._moments
        ]
        last = max((moment for moment in self._moments if moment in self._known), default=None)
        total = _point(
            self._moments[0], self._step * len(self._moments), parts, self._backlog_at(last, found)
        )
        return Series(tenant=key[0], queue=key[1], kind=key[2], points=points, total=total)

    def _backlog_at(self, moment: datetime | None, found: dict[datetime, _StatsRow]) -> dict[str, Any]:
        """Return the backlog at the end of a step.

        It is zero if the step was sampled and no sample has jobs.
        """
        if moment is None or moment not in self._known:
            return {}
        row = found[moment].row if moment in found else {}
        counts = {name: int(row.get(name) or 0) for name in ("ready", "waiting", "running")}
        return {**counts, "oldest_seconds": row.get("oldest_seconds")}


def _point(at: datetime, seconds: int, parts: list[_StatsRow], left: dict[str, Any]) -> StatPoint:
    wait, run = Histogram.sum(part.wait for part in parts), Histogram.sum(part.run for part in parts)

    def total(name: str) -> int:
        return sum(int(part.row[name]) for part in parts)

    return StatPoint(
        at=at,
        seconds=seconds,
        arrivals=total("arrivals"),
        ended=total("ended"),
        succeeded=total("succeeded"),
        failed=total("failed"),
        dead_letter=total("dead_letter"),
        failures=total("failures"),
        wait_p50=wait.quantile(0.5),
        wait_p95=wait.quantile(0.95),
        run_p50=run.quantile(0.5),
        run_p95=run.quantile(0.95),
        ready=left.get("ready"),
        waiting=left.get("waiting"),
        running=left.get("running"),
        oldest_seconds=left.get("oldest_seconds"),
    )


MIN_DURATION_SECONDS = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTotals:
    """Totals of a tenant, queue and kind. Names beyond the limit are counted as ``other``."""

    tenant_id: str
    queue: str
    kind: str
    arrivals: int
    ended: int
    succeeded: int
    failed: int
    dead_letter: int
    failures: int
    retries: int
    rescues: int

    @property
    def canceled(self) -> int:
        return self.ended - self.succeeded - self.failed - self.dead_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTotals:
    """Attempts that waited or ran for at most ``bound`` seconds and more than half of that."""

    queue: str
    kind: str
    what: Literal["wait", "run"]
    octave: int
    attempts: int
    seconds: float

    @property
    def bound(self) -> float:
        return bound_of(self.octave)


def bound_of(octave: int) -> float:
    return float(MIN_DURATION_SECONDS * 2**octave)


async def job_totals(connection: Db, *, tenants: int, lines: int) -> list[JobTotals]:
    """Return totals for a limited number of tenants, and of queues with their kinds."""
    return await fetch(connection, "totals_jobs", JobTotals, tenants=tenants, lines=lines)


async def time_totals(connection: Db, *, lines: int) -> list[TimeTotals]:
    return await fetch(connection, "totals_times", TimeTotals, lines=lines)


async def totals_age(connection: Db) -> float | None:
    """Return the seconds since the last counted minute, or None without one."""
    return await fetch_value(connection, "totals_until")  # type: ignore[no-any-return]


async def paused_queues(connection: Db) -> list[str]:
    return [row["name"] for row in await fetch_rows(connection, "queues_paused")]
