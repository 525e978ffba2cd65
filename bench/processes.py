"""No-op jobs a second through each runner, each drained by a real worker: ``python -m bench.processes``.

Prints one JSON object. Takes POSTHOUSE_DATABASE_URL as the server, and works in a database of its own there;
without it, on an embedded Postgres.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

import posthouse
from posthouse import testing
from posthouse.bench.fleet import PAYLOAD
from posthouse.settings import load_settings
from posthouse.storage.database import close_embedded, database_url
from posthouse.storage.queries import query
from posthouse.worker.shutdown import run_event_loop

app = posthouse.App()


@app.job(queue="loop")
async def noop_loop(user: int, text: str) -> None:
    pass


@app.job(queue="thread")
def noop_thread(user: int, text: str) -> None:
    pass


@app.job(queue="process", runner="process")
def noop_process(user: int, text: str) -> None:
    pass


def main() -> None:
    arguments = _arguments()
    try:
        with testing.database(database_url(load_settings())) as url:
            found = {
                f"{name}_per_s": _drain(url, name, arguments.jobs) for name in ("loop", "thread", "process")
            }
    finally:
        close_embedded()
    print(json.dumps({**found, "jobs": arguments.jobs, "processes": load_settings().slots_of_processes()}))


def _drain(url: str, queue: str, jobs: int) -> int:
    """Jobs a second from the first start to the last end, the queue being full from the beginning."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(query("bench_reset"))
        with posthouse.SyncClient(url) as client:
            client.enqueue_many(
                [posthouse.Request(kind=f"noop_{queue}", payload=PAYLOAD, queue=queue)] * jobs
            )
        connection.execute("vacuum analyze")
        worker = _start_worker(url, queue)
        try:
            while _ended(connection) < jobs:
                if worker.poll() is not None:
                    raise SystemExit(f"the worker ended with {worker.returncode}")
                time.sleep(0.05)
        finally:
            worker.terminate()
            worker.wait()
        row = connection.execute(query("bench_rate")).fetchone()
        assert row is not None
        return round(float(row[0]))


def _start_worker(url: str, queue: str) -> subprocess.Popen[bytes]:
    code = f"from bench import processes; processes.work({queue!r})"
    environment = {**os.environ, "POSTHOUSE_DATABASE_URL": url}
    root = Path(__file__).parent.parent
    return subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=root)


def work(queue: str) -> None:
    only = posthouse.App(settings=app.settings)
    only.definitions.update({k: item for k, item in app.definitions.items() if item.queue == queue})
    run_event_loop(only.work())


def _ended(connection: psycopg.Connection[Any]) -> int:
    return sum(count for _, count in connection.execute(query("testing_ended")).fetchall())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.processes", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs for each runner")
    return parser.parse_args()


if __name__ == "__main__":
    main()
