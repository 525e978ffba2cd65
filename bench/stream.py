"""How long a change takes to reach those who look on: ``python -m bench.stream``.

One server process, one worker, and clients that each read all changes of a tenant while its jobs come, make
progress and end. A delay is from the moment that the database recorded (queued, started, ended) to the moment
when a client has read it. Prints one JSON object; times in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import posthouse
from posthouse import testing
from posthouse.settings import Settings
from posthouse.storage.database import close_embedded

from .api import make_key
from .serving import serving

MOMENTS = {"queued": "queued_at", "running": "attempt_started_at", "succeeded": "finished_at"}


class Client:
    def __init__(self) -> None:
        self.delays: dict[str, list[float]] = {status: [] for status in MOMENTS}
        self.left_out = 0

    async def read(self, address: str, key: str, ready: asyncio.Semaphore) -> None:
        parts = urlsplit(address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = f"GET /api/v1/stream?event=job HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
        writer.write(head.encode())
        first = await reader.readline()
        assert b" 200 " in first, first
        ready.release()
        name = b""
        async for line in reader:
            if line.startswith(b"event: "):
                name = line[7:].strip()
            elif line.startswith(b"data: "):
                self.note(name, json.loads(line[6:]))

    def note(self, name: bytes, data: dict[str, Any]) -> None:
        if name == b"overflow":
            self.left_out += data["left_out"]
        elif name == b"job" and data["progress_percent"] is None:
            moment = datetime.fromisoformat(data[MOMENTS[data["status"]]])
            self.delays[data["status"]].append(1000 * (time.time() - moment.timestamp()))


async def measure(url: str, address: str, key: str, wanted: argparse.Namespace) -> dict[str, Any]:
    app = posthouse.App(settings=Settings(database_url=url))

    @app.job()
    async def work() -> None:
        await asyncio.sleep(wanted.run)

    clients, ready = [Client() for _ in range(wanted.clients)], asyncio.Semaphore(0)
    async with app:
        worker = await app.worker()
        await worker.start()
        tasks = [asyncio.create_task(client.read(address, key, ready)) for client in clients]
        for _ in clients:
            await ready.acquire()
        for _ in range(int(wanted.seconds * wanted.rate)):
            await work.using(tenant="bench").enqueue()
            await asyncio.sleep(1 / wanted.rate)
        await asyncio.sleep(2)
        for task in tasks:
            task.cancel()
        await worker.stop()
    return found(clients, wanted)


def found(clients: list[Client], wanted: argparse.Namespace) -> dict[str, Any]:
    everything = sorted(delay for client in clients for kind in client.delays.values() for delay in kind)
    share = statistics.quantiles(everything, n=100)
    return {
        "clients": len(clients),
        "jobs_per_second": wanted.rate,
        "events": len(everything),
        "left_out": sum(client.left_out for client in clients),
        "p50_ms": round(share[49]),
        "p95_ms": round(share[94]),
        "p99_ms": round(share[98]),
        "max_ms": round(everything[-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs each second")
    parser.add_argument("--run", type=float, default=0.5, help="seconds that a job runs")
    parser.add_argument("--seconds", type=float, default=15.0)
    wanted = parser.parse_args()
    os.environ["POSTHOUSE_MAX_STREAMS_PER_KEY"] = str(wanted.clients)
    try:
        with testing.database() as url:
            key = asyncio.run(make_key(url))
            with serving(url) as address:
                print(json.dumps(asyncio.run(measure(url, address, key, wanted))))
    finally:
        close_embedded()


if __name__ == "__main__":
    main()
