"""Workers of a bench run, and the bare loop that they are compared with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from uuid import uuid4

import psycopg

import posthouse
from posthouse.settings import Settings
from posthouse.storage.leases import Claim, ClaimOptions, Leases, Success
from posthouse.worker.fetcher import FairShare

BATCH = 500


class FleetLimit(NamedTuple):
    rate: float
    claim_us_per_job: float | None
    finish_us_per_job: float | None
    wal_bytes_per_job: float

    @property
    def backend_us_per_job(self) -> float | None:
        if self.claim_us_per_job is None or self.finish_us_per_job is None:
            return None
        return self.claim_us_per_job + self.finish_us_per_job


async def measure_limit(url: str, jobs: int) -> FleetLimit:
    """Drain ``jobs`` queued no-ops with the engine's own statements: no handlers, no worker.

    Returns jobs per second and what each cost the database. The next batch is claimed while the last one is
    finished, on two connections, as the worker does it.
    """
    leases = Leases(url, uuid4(), 60)
    try:
        pids = await leases.backend_pids()
        cpu, wal = list(map(_cpu_us, pids)), _wal(url)
        started = time.perf_counter()
        await _drain(leases, jobs)
        spent = time.perf_counter() - started
        cpu_after, wal_after = list(map(_cpu_us, pids)), _wal(url)
    finally:
        await leases.close()
    claim, finish = (
        None if before is None or after is None else (after - before) / jobs
        for before, after in zip(cpu, cpu_after, strict=True)
    )
    return FleetLimit(jobs / spent, claim, finish, (wal_after - wal) / jobs)


async def _drain(leases: Leases, jobs: int) -> None:
    lane_cursors: dict[int, int] = {}
    shares = FairShare()
    done = 0
    claim = await _claim(leases, lane_cursors, shares)
    while done < jobs:
        reports = [Success(row.id.hex(), claim.token.hex, None) for row in claim.rows]
        done += len(reports)
        if done >= jobs:
            await leases.succeed(reports)
        else:
            claim, _ = await asyncio.gather(_claim(leases, lane_cursors, shares), leases.succeed(reports))


async def _claim(leases: Leases, lane_cursors: dict[int, int], shares: FairShare) -> Claim:
    """Claim the next batch behind the lane cursors and fair over tenants, as a worker does."""
    options = ClaimOptions(["default"], ["noop"], BATCH, lane_cursors, tenant_usage=shares.usage)
    claim = await leases.claim(options)
    for row in claim.rows:
        lane_cursors[row.lane] = max(lane_cursors.get(row.lane, 0), row.position)
    shares.record_claim(row.tenant_id for row in claim.rows)
    return claim


def machine_cpu_us() -> float | None:
    """CPU time that all processes of this machine have used; None where the system does not tell."""
    try:
        ticks = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except OSError:
        return None
    used = sum(int(ticks[kind]) for kind in (0, 1, 2, 5, 6))  # user, nice, system, irq, softirq
    return used * 1e6 / os.sysconf("SC_CLK_TCK")


def _wal(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select pg_current_wal_lsn() - '0/0'").fetchone()
        return int(row[0]) if row else 0


def _cpu_us(pid: int) -> float | None:
    """CPU time of this backend; None if it runs on another machine."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) * 10_000


PAYLOAD = {"user": 7, "text": "x" * 80}
"""About 100 bytes of JSON."""

app = posthouse.App(settings=Settings(database_url=os.environ.get("POSTHOUSE_DATABASE_URL", "")))


@app.job()
async def noop(user: int, text: str) -> None:
    """Does nothing: what is left is the cost of the queue."""


@app.job()
async def stamp() -> float:
    """Says when it started."""
    return time.time()


@app.job()
async def stamp_text(text: str) -> float:  # noqa: ARG001 - the payload is what is measured
    """Says when it started."""
    return time.time()


@app.job(max_attempts=100)
async def linger(job: posthouse.Job) -> None:
    """Stays until its worker dies; the second time it ends at once."""
    if job.attempt == 1:
        import asyncio  # noqa: PLC0415 - only here

        await asyncio.sleep(60)


class BenchWorker:
    """One worker in a process of its own."""

    def __init__(self, url: str) -> None:
        environment = {**os.environ, "POSTHOUSE_DATABASE_URL": url}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from posthouse.bench import fleet; fleet.main()"],
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it says when it is ready

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def rss_mb(self) -> float | None:
        """Peak memory so far; None where the system does not tell."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return None

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def fleet(url: str, size: int) -> Iterator[list[BenchWorker]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(BenchWorker(url)) for _ in range(size)]


def main() -> None:
    from posthouse.worker.shutdown import run_event_loop  # noqa: PLC0415 - only in the worker process

    run_event_loop(app.work(ready=lambda _: print("ready", flush=True)))  # noqa: T201 - read by WorkerProcess
