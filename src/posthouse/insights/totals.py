"""Counters for metrics, identical from every process and after every restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from posthouse.storage.queries import Db, fetch, fetch_rows, fetch_value

SHORTEST = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTotals:
    """Totals of names beyond the limit are in ``other``."""

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
    """Number of attempts that waited or ran for at most ``bound`` seconds and more than half of that."""

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
    return float(SHORTEST * 2**octave)


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
