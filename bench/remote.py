"""No-op jobs a second through one server process, drained by remote workers: ``python -m bench.remote``.

Also how long a job waits for an idle remote worker. Prints one JSON object. Takes POSTHOUSE_DATABASE_URL as
the Postgres, and works in a database of its own there; without it, on an embedded one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psycopg

import posthouse
from posthouse import testing
from posthouse.bench.fleet import app as noops
from posthouse.bench.measures import fill, until_ended
from posthouse.client.client import Client
from posthouse.identity import Role, issue_key
from posthouse.settings import load_settings
from posthouse.storage.database import close_embedded, database_url
from posthouse.storage.queries import query
from posthouse.worker.shutdown import run_event_loop

PICKUPS = 100


def main() -> None:
    arguments = _arguments()
    if arguments.work:
        work()
        return
    try:
        with testing.database(database_url(load_settings())) as url:
            found = asyncio.run(measure(url, arguments.jobs, arguments.workers))
    finally:
        close_embedded()
    print(json.dumps(found))


async def measure(url: str, jobs: int, workers: int) -> dict[str, Any]:
    key = await _key(url)
    with _process(["-m", "posthouse", "server", "--port", "0"], POSTHOUSE_DATABASE_URL=url) as line:
        remote = {"POSTHOUSE_REMOTE_URL": line.split()[-1], "POSTHOUSE_REMOTE_KEY": key}
        last = await fill(url, jobs)
        with contextlib.ExitStack() as stack:
            for _ in range(workers):
                stack.enter_context(_process(["-m", "bench.remote", "--work"], **remote))
            await until_ended(url, last)
            rate = _rate(url)
            waits = await _pickups(url)
    cuts = statistics.quantiles(waits, n=100)
    pickup = {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2)}
    return {"remote_drain": round(rate), "remote_pickup_ms": pickup, "jobs": jobs, "workers": workers}


def work() -> None:
    """A remote worker: what it needs stands in the environment."""
    app = posthouse.App()
    app.definitions.update(noops.definitions)
    run_event_loop(app.work(ready=lambda _: print("ready", flush=True)))


async def _key(url: str) -> str:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        return await issue_key(connection, "bench", Role.WORKER, may_announce=True, actor="bench")


@contextlib.contextmanager
def _process(arguments: list[str], **environment: str) -> Iterator[str]:
    """Gives the line that it says when it is ready."""
    kept = {name: value for name, value in os.environ.items() if name != "POSTHOUSE_DATABASE_URL"}
    process = subprocess.Popen(
        [sys.executable, *arguments], env={**kept, **environment}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _rate(url: str) -> float:
    with psycopg.connect(url) as connection:
        row = connection.execute(query("bench_rate")).fetchone()
        assert row is not None
        return float(row[0])


async def _pickups(url: str) -> list[float]:
    waits = []
    async with Client(url) as client:
        for _ in range(PICKUPS):
            await asyncio.sleep(0.02)
            handle = await client.enqueue("stamp")
            committed = time.time()
            waits.append(max(0.0, await handle.wait("30s") - committed) * 1000)
    return waits


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.remote", description=__doc__)
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
