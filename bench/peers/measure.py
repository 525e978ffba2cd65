"""The figures of one peer."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from posthouse.bench.fleet import machine_cpu_us

from .catalogue import Peer
from .scripts import Deadline, PeerError, Script, Worker

ONE_BY_ONE_JOBS = 1_000
PICKUP_RATE = 40
PICKUP_SECONDS = 6
PICKUP_UNCOUNTED = 20  # the first ones meet a cold client
SETTLE_SECONDS = 1.0  # until a worker without jobs waits as it does when it is idle

GUARANTEES_ROUNDS = 3
# No further round starts after this time: a slow peer gets fewer rounds, and its longer rounds are
# less noisy anyway.
ROUNDS_SECONDS = 6.0

# Fewer jobs than this only check that everything runs: one round, one second of a steady rate.
FEWEST_JOBS = 1_000

COMMAND_TIMEOUT_S = 60
DRAIN_TIMEOUT_S = 45

Result = dict[str, Any]


@dataclass(frozen=True)
class Drain:
    rate: float
    rss_mb: float | None
    machine_us_per_job: float | None


class Measurement:
    """Measures one peer in its own database."""

    def __init__(
        self, peer: Peer, database_url: str, jobs: int, deadline: Deadline, *, guarantees: bool = False
    ) -> None:
        self._is_short = jobs < FEWEST_JOBS
        self._guarantees = peer.guarantees
        self._jobs = min(jobs, peer.most_jobs_with_guarantees if guarantees else peer.most_jobs)
        self._unfinished_sql = peer.unfinished_sql
        self._script = Script(peer, database_url, deadline, guarantees=guarantees)
        self._deadline = deadline
        self._database = psycopg.connect(database_url, autocommit=True)
        self.bulk_rates: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def setup(self) -> Result:
        return self._script.ask("setup", seconds=COMMAND_TIMEOUT_S)

    def run_guarantees(self) -> Result:
        with self:
            self.setup()
            return {
                "guarantees": self._guarantees,
                "drain_1_guarantees": median_rate(self._rounds(lambda: self.drain(workers=1))),
                "drain_2_guarantees": median_rate(self._rounds(lambda: self.drain(workers=2))),
            }

    def _enqueue(self, command: str, jobs: int) -> float:
        answer = self._script.ask(command, str(jobs), seconds=COMMAND_TIMEOUT_S)
        return float(answer["jobs"] / answer["seconds"])

    def _rounds(self, drain: Callable[[], Drain]) -> list[Drain]:
        end = time.monotonic() + ROUNDS_SECONDS
        drains = [drain()]
        most = 1 if self._is_short else GUARANTEES_ROUNDS
        while len(drains) < most and time.monotonic() < end:
            drains.append(drain())
        return drains

    def drain(self, *, workers: int) -> Drain:
        """Queue first, then run: from the first job's start until all are durably finished.

        Process start, imports and connecting are left out for every peer alike: the workers
        wait for a word when they have done that. So is the claim of the very first batch.
        """
        self.bulk_rates.append(self._enqueue("enqueue_bulk", self._jobs))
        self._tidy()
        backlog = self._unfinished()
        with self._working(workers) as team:
            used = machine_cpu_us()
            self._wait_for(team, lambda: sum(worker.ran for worker in team) >= backlog)
            # Libraries report completions in batches, after the handlers: only the database
            # knows when the work is really done.
            self._wait_for(team, lambda: self._unfinished() <= 0)
            ended = time.monotonic()
            spent = machine_cpu_us()
            began = min(worker.first for worker in team if worker.first is not None)
            cpu = None if used is None or spent is None else (spent - used) / backlog
            rss = max((size for worker in team if (size := worker.peak_rss_mb()) is not None), default=None)
            return Drain(backlog / (ended - began), rss, cpu)

    def one_by_one(self) -> tuple[float, list[float]]:
        """Return the rate of single enqueues, and in ms how late jobs start on one idle worker.

        A job is late from just before its enqueue to the start of its handler.
        """
        jobs = min(ONE_BY_ONE_JOBS, self._jobs)
        rate = self._enqueue("enqueue_one", jobs)
        with self._working(1, "timed") as (worker,):
            self._wait_for([worker], lambda: worker.ran > 0 and self._unfinished() <= 0)
            self._tidy()
            time.sleep(SETTLE_SECONDS)
            before = worker.ran
            seconds = 2 if self._is_short else PICKUP_SECONDS
            paced = self._script.ask("pace", str(PICKUP_RATE), str(seconds), seconds=seconds + 20)["jobs"]
            self._wait_for([worker], lambda: worker.ran >= before + paced)
            return rate, worker.delays_ms[before + PICKUP_UNCOUNTED :]

    @contextmanager
    def _working(self, workers: int, *mode: str) -> Iterator[list[Worker]]:
        team = [self._script.worker(*mode) for _ in range(workers)]
        try:
            self._wait_for(team, lambda: all(worker.ready for worker in team))
            for worker in team:
                worker.go()
            yield team
        finally:
            for worker in team:
                worker.stop()

    def _wait_for(self, team: list[Worker], true: Callable[[], bool]) -> None:
        def checked() -> bool:
            for worker in team:
                worker.check()
            return true()

        if not self._deadline.came_true(checked, seconds=DRAIN_TIMEOUT_S):
            ran = sum(worker.ran for worker in team)
            raise PeerError(f"its workers are too slow: {ran} jobs after {DRAIN_TIMEOUT_S} s")

    def _unfinished(self) -> int:
        row = self._database.execute(self._unfinished_sql.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _tidy(self) -> None:
        # As a database would stand after autovacuum, so that neither the order of the figures
        # nor the luck of its timing shows in them.
        self._database.execute("VACUUM ANALYZE")


def measure_guarantees(peer: Peer, database_url: str, jobs: int, deadline: Deadline) -> Result:
    return Measurement(peer, database_url, jobs, deadline, guarantees=True).run_guarantees()


def median_rate(drains: list[Drain]) -> int:
    return round(statistics.median(drain.rate for drain in drains))


def median_cpu(drains: list[Drain]) -> float | None:
    costs = [drain.machine_us_per_job for drain in drains if drain.machine_us_per_job is not None]
    return round(statistics.median(costs), 1) if costs else None


def highest_rss(drains: list[Drain]) -> float | None:
    return max((drain.rss_mb for drain in drains if drain.rss_mb is not None), default=None)
