"""`python -m bench.scale`: what many lanes, a long history and many idle workers cost.

Each cost of a job stands beside that of a small installation, measured by turns in the same run. Prints one
JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from posthouse import Client, Request, testing
from posthouse.bench.fleet import PAYLOAD, FleetLimit, measure_limit
from posthouse.bench.measures import fill
from posthouse.storage.embedded import attach_server

from .idle import cpu_seconds, postmaster
from .listing import fill as fill_history

JOBS = 40_000
TURNS = 3
TENANTS = 500
PRIORITIES = (100, 200)
HISTORY_ROWS = 5_000_000
WORKERS = 200
WORKER_CONNECTIONS = 5
IDLE_SECONDS = 30.0


async def many_lanes(server: str) -> dict[str, Any]:
    """Backend CPU of claims and of finishes with 1,000 lanes of 500 tenants, and with one lane."""
    requests = [
        Request(kind="noop", payload=PAYLOAD, tenant=f"tenant-{number % TENANTS}", priority=priority)
        for number in range(JOBS // len(PRIORITIES))
        for priority in PRIORITIES
    ]
    one: list[FleetLimit] = []
    many: list[FleetLimit] = []
    with testing.database(server) as small, testing.database(server) as large:
        for _ in range(TURNS):
            await fill(small, JOBS)
            one.append(await measure_limit(small, JOBS))
            async with Client(large) as client:
                await client.enqueue_many(requests)
            many.append(await measure_limit(large, JOBS))
    lanes = {"1": one, str(TENANTS * len(PRIORITIES)): many}
    return {
        f"lanes_{part}_us": _compared(
            {name: [getattr(cost, f"{part}_us_per_job") for cost in costs] for name, costs in lanes.items()}
        )
        for part in ("backend", "claim", "finish")
    }


async def long_history(server: str) -> dict[str, Any]:
    """Backend CPU of claim and finish with five million jobs in history, and with none."""
    short: list[float | None] = []
    long: list[float | None] = []
    with testing.database(server) as small, testing.database(server) as large:
        with psycopg.connect(large, autocommit=True) as connection:
            fill_history(connection, HISTORY_ROWS, 0)
        for _ in range(TURNS):
            for database, costs in ((small, short), (large, long)):
                await fill(database, JOBS)
                costs.append((await measure_limit(database, JOBS)).backend_us_per_job)
    return {"history_backend_us": _compared({"0": short, str(HISTORY_ROWS): long})}


def _compared(costs: dict[str, list[float | None]]) -> dict[str, float]:
    return {
        name: round(statistics.median(value for value in values if value is not None), 1)
        for name, values in costs.items()
    }


def idle_workers() -> dict[str, Any]:
    """Transactions a second and CPU of Postgres and of the workers, while all of them are idle."""
    settings = {"max_connections": str(WORKERS * WORKER_CONNECTIONS)}
    with _server(settings) as server, testing.database(server) as url:
        command = [sys.executable, "-m", "bench.redis_fleet", str(WORKERS)]
        environment = {**os.environ, "POSTHOUSE_DATABASE_URL": url}
        fleet = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for_workers(url)
            before, started = _spent(server, url, fleet.pid), time.monotonic()
            time.sleep(IDLE_SECONDS)
            after, seconds = _spent(server, url, fleet.pid), time.monotonic() - started
        finally:
            os.killpg(fleet.pid, signal.SIGKILL)
            fleet.wait()
    rates = [(late - early) / seconds for early, late in zip(before, after, strict=True)]
    return {
        "idle_workers": WORKERS,
        "idle_transactions_per_s": round(rates[0], 1),
        "idle_postgres_percent": round(rates[1] * 100, 1),
        "idle_workers_percent": round(rates[2] * 100, 1),
    }


@contextmanager
def _server(settings: dict[str, str] | None = None) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="posthouse-scale-") as folder,
        attach_server(Path(folder) / "postgres", settings=settings or {}) as embedded,
    ):
        yield embedded.admin_url_for()


def _wait_for_workers(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while _value(connection, "select count(*) from posthouse.workers") < WORKERS:
            time.sleep(1)
    time.sleep(10)  # until they poll as rarely as idle workers do


def _spent(server: str, url: str, fleet: int) -> tuple[float, float, float]:
    with psycopg.connect(url, autocommit=True) as connection:
        transactions = _value(
            connection,
            "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()",
        )
    return transactions, cpu_seconds(postmaster(server)), cpu_seconds(fleet)


def _value(connection: psycopg.Connection[Any], statement: str) -> float:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return float(row[0])


def main() -> None:
    with _server() as server:
        figures = {**asyncio.run(many_lanes(server)), **asyncio.run(long_history(server))}
    print(json.dumps({**figures, **idle_workers()}))


if __name__ == "__main__":
    main()
