"""The limit: the engine's own claim and finish statements in a bare loop, with no handlers and no worker.

The next batch is claimed while the last one is finished, on two connections, as the worker does it.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import psycopg

from posthouse.storage.leases import Claim, Leases, Success

BATCH = 500


class Limit(NamedTuple):
    rate: float
    backend_us_per_job: float | None
    wal_bytes_per_job: float


async def measure_limit(url: str, jobs: int) -> Limit:
    """Drains ``jobs`` queued no-ops; returns jobs a second and what each cost the database."""
    leases = Leases(url, uuid4(), 60)
    try:
        pids = await leases.backend_pids()
        cpu, wal = _cpu_us(pids), _wal(url)
        started = time.perf_counter()
        await _drain(leases, jobs)
        spent = time.perf_counter() - started
        cpu_after, wal_after = _cpu_us(pids), _wal(url)
    finally:
        await leases.close()
    backend = None if cpu is None or cpu_after is None else (cpu_after - cpu) / jobs
    return Limit(jobs / spent, backend, (wal_after - wal) / jobs)


async def _drain(leases: Leases, jobs: int) -> None:
    marks: dict[int, int] = {}
    done = 0
    claim = await _claim(leases, marks)
    while done < jobs:
        reports = [Success(row[0].hex(), claim.token.hex, None) for row in claim.rows]
        done += len(reports)
        if done >= jobs:
            await leases.succeed(reports)
        else:
            claim, _ = await asyncio.gather(_claim(leases, marks), leases.succeed(reports))


async def _claim(leases: Leases, marks: dict[int, int]) -> Claim:
    claim = await leases.claim(["default"], ["noop"], BATCH, marks, careful=True)
    for row in claim.rows:
        marks[row[8]] = max(marks.get(row[8], 0), row[9])
    return claim


def _wal(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select pg_current_wal_lsn() - '0/0'").fetchone()
        return int(row[0]) if row else 0


def _cpu_us(pids: list[int]) -> float | None:
    """CPU time of these backends; None if they run on another machine."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        total += (int(fields[11]) + int(fields[12])) * 10_000
    return total
