"""Dispatch by Postgres and by Redis in one run: ``python -m bench.redis [--turns 3] [--workers 50]``.

The modes take turns on the same servers. Prints one JSON object:

- ``pickup_ms``: from an enqueue to the start of the job, median, at two rates of single jobs.
- ``idle``: per second, what the idle fleet asks Postgres: calls of the claim function, and all transactions,
  among them heartbeats and the keeper, which are the same in both modes.
- ``drain``: jobs per second from a full queue, by four workers.
- ``recovery_s``: in redis mode, from the end of a fault until a job that was enqueued then has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from posthouse import testing
from posthouse.storage.embedded import ensure

from .redis_server import RedisServer

MODES = ("database", "redis")
SETTLE_SECONDS = 4.0
IDLE_SECONDS = 20.0
PICKUPS = 150
RATES = (10, 50)
DRAIN_JOBS = 20_000
DRAIN_WORKERS = 4
FAULT_SECONDS = 3.0
ENQUEUE: LiteralString = "select posthouse.enqueue('noop')"
FILL: LiteralString = (
    "select posthouse.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'noop')) "
    "from generate_series(1, %s)))"
)


class Bench:
    def __init__(self, url: str, redis: RedisServer, workers: int) -> None:
        self._url = url
        self._redis = redis
        self._workers = workers
        self._db = psycopg.connect(url, autocommit=True)

    @asynccontextmanager
    async def _fleet(self, mode: str, workers: int) -> AsyncIterator[None]:
        """Start the workers, each in a process of its own; one of them runs the keeper."""
        self._redis.flush()
        settings = {"DATABASE_URL": self._url, "DISPATCH": mode, "REDIS_URL": self._redis.url}
        environment = {**os.environ, **{f"POSTHOUSE_{name}": value for name, value in settings.items()}}
        command = [sys.executable, "-m", "bench.redis_fleet"]
        quiet: Any = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        fleet = [subprocess.Popen([*command, "--keeper"], **quiet)]  # noqa: ASYNC220 - before anything is measured
        fleet += [subprocess.Popen(command, **quiet) for _ in range(workers - 1)]  # noqa: ASYNC220
        try:
            started: LiteralString = "select count(*) from posthouse.workers where stopped_at is null"
            while self._number(started) < workers:
                await asyncio.sleep(0.2)
            await asyncio.sleep(SETTLE_SECONDS)
            yield
        finally:
            for process in fleet:
                process.terminate()
            for process in fleet:
                await asyncio.to_thread(process.wait)

    def _number(self, statement: LiteralString) -> float:
        row = self._db.execute(statement).fetchone()
        assert row is not None
        return float(row[0])

    async def _ended(self, count: int) -> None:
        while await asyncio.to_thread(self._number, "select count(*) from posthouse.history") < count:
            await asyncio.sleep(0.02)

    async def turn(self, mode: str) -> dict[str, Any]:
        self._db.execute("truncate posthouse.history")
        async with self._fleet(mode, self._workers):
            self._db.execute(ENQUEUE)
            await self._ended(1)
            pickup = {rate: await self._pickup(1 / rate) for rate in RATES}
            idle = await self._idle()
        found = {f"pickup_ms_at_{rate}_per_s": ms for rate, ms in pickup.items()}
        return {**found, **idle, "drain": await self._drain(mode)}

    async def _pickup(self, pause: float) -> float:
        self._db.execute("truncate posthouse.history")
        for _ in range(PICKUPS):
            await asyncio.to_thread(self._db.execute, ENQUEUE)
            await asyncio.sleep(pause)
        await self._ended(PICKUPS)
        return self._number(
            "select percentile_cont(0.5) within group (order by extract(epoch from started_at - queued_at)) "
            "* 1000 from posthouse.history"
        )

    async def _idle(self) -> dict[str, float]:
        await asyncio.sleep(SETTLE_SECONDS)
        before, began = self._counts(), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        after, spent = self._counts(), time.monotonic() - began
        return {name: (after[name] - before[name]) / spent for name in before}

    def _counts(self) -> dict[str, float]:
        return {
            "claims_per_s": self._number(
                "select coalesce(sum(calls), 0) from pg_stat_user_functions where funcname = 'claim'"
            ),
            "transactions_per_s": self._number(
                "select xact_commit from pg_stat_database where datname = current_database()"
            ),
        }

    async def _drain(self, mode: str) -> float:
        self._db.execute("truncate posthouse.history")
        self._db.execute("select posthouse.pause_queue('default')")
        async with self._fleet(mode, DRAIN_WORKERS):
            await asyncio.to_thread(self._db.execute, FILL, (DRAIN_JOBS,))
            began = time.monotonic()
            self._db.execute("select posthouse.resume_queue('default')")
            await self._ended(DRAIN_JOBS)
            return DRAIN_JOBS / (time.monotonic() - began)

    async def recovery(self) -> dict[str, float]:
        """Seconds from the end of each fault until a new job has ended, and the one enqueued during it."""

        def restart() -> None:
            self._redis.kill()
            self._redis.start()

        faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "kill": (self._redis.kill, self._redis.start),
            "hang": (self._redis.hang, self._redis.resume),
            "flushall": (lambda: None, self._redis.flush),
            "empty restart": (lambda: None, restart),
        }
        found = {}
        async with self._fleet("redis", DRAIN_WORKERS):
            for name, (begin, end) in faults.items():
                self._db.execute("truncate posthouse.history")
                begin()
                await asyncio.sleep(FAULT_SECONDS)
                self._db.execute(ENQUEUE)
                await asyncio.to_thread(end)
                self._db.execute(ENQUEUE)
                began = time.monotonic()
                await self._ended(2)
                found[name] = round(time.monotonic() - began, 2)
        return found

    def close(self) -> None:
        self._db.close()


def _medians(turns: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(turn[name] for turn in turns), 2) for name in turns[0]}


async def _measure(bench: Bench, turns: int) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(turns):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            found[mode].append(await bench.turn(mode))
            print(json.dumps({"turn": number + 1, "mode": mode, **found[mode][-1]}), flush=True)
    result: dict[str, Any] = {mode: _medians(each) for mode, each in found.items()}
    result["recovery_s"] = await bench.recovery()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, default=50)
    options = parser.parse_args()
    settings = {"fsync": "off", "track_functions": "pl", "max_connections": "500"}
    with (
        tempfile.TemporaryDirectory(prefix="posthouse-redis-") as folder,
        ensure(Path(folder) / "postgres", settings=settings) as server,
        testing.database(server.admin_url_for()) as url,
        RedisServer() as redis,
    ):
        bench = Bench(url, redis, options.workers)
        try:
            print(json.dumps(asyncio.run(_measure(bench, options.turns))))
        finally:
            bench.close()


if __name__ == "__main__":
    main()
