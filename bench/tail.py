"""How long a log line takes from the handler to its follower: ``python -m bench.tail``.

Each job logs a line every 20 to 200 ms, or with ``--commands`` a program writes one to its stdout. One is
followed through the read side, another with ``posthouse jobs logs --follow --json`` in a process of its own.
Delays in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import posthouse
from posthouse import insights, testing
from posthouse.definitions import create_definition
from posthouse.settings import Settings
from posthouse.storage.connections import connect_async


def make_app(url: str, seconds: float) -> tuple[posthouse.App, Any]:
    app = posthouse.App(settings=Settings(database_url=url))

    @app.job()
    async def talk(job: posthouse.Job) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            job.log.info("%d", time.time_ns())
            await asyncio.sleep(random.uniform(0.02, 0.2))

    return app, talk


TALK = """
import random, sys, time
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    print(time.time_ns(), flush=True)
    time.sleep(random.uniform(0.02, 0.2))
"""


async def define_command(url: str, seconds: float) -> None:
    fields = {"command": {"argv": [sys.executable, "-c", TALK, str(seconds)]}}
    async with await connect_async(url, "bench") as connection:
        await create_definition(connection, "talk", fields, actor="bench")


async def by_reader(url: str, job_id: UUID) -> AsyncIterator[int]:
    connection = await connect_async(url, "bench")
    async with connection:
        async for lines in insights.follow_log(connection, job_id):
            for line in lines:
                yield int(line.text)


async def by_command(url: str, job_id: UUID) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "posthouse", "jobs", "logs", str(job_id), "--follow", "--json",
        env={**os.environ, "POSTHOUSE_DATABASE_URL": url}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async for line in process.stdout:
        yield int(json.loads(line)["text"])
    await process.wait()


async def delays(lines: AsyncIterator[int], skip_seconds: float) -> list[float]:
    """Without what was put out before the follower was there."""
    there = time.time_ns() + skip_seconds * 1e9
    return [(time.time_ns() - at) / 1e6 async for at in lines if at > there]


async def measure(url: str, seconds: float, jobs: int, *, commands: bool) -> dict[str, Any]:
    app, talk = make_app(url, seconds)
    if commands:
        app.definitions.clear()
        await define_command(url, seconds)
    async with app:
        worker = await app.worker(commands=commands, command_slots=max(2, jobs))
        await worker.start()
        enqueue = functools.partial(app.client.enqueue, "talk") if commands else talk.enqueue
        handles = [await enqueue() for _ in range(max(2, jobs))]
        reader, command = await asyncio.gather(
            delays(by_reader(url, handles[0].id), 0.5), delays(by_command(url, handles[1].id), 2.0)
        )
        await worker.stop()
    return {"jobs": max(2, jobs), "reader": _summary(reader), "command": _summary(command)}


def _summary(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {
        "lines": len(values),
        "p50_ms": round(cuts[49], 1),
        "p99_ms": round(cuts[98], 1),
        "max_ms": round(max(values), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--commands", action="store_true")
    options = parser.parse_args()
    with testing.database() as url:
        work = measure(url, options.seconds, options.jobs, commands=options.commands)
        print(json.dumps(asyncio.run(work), indent=2))


if __name__ == "__main__":
    main()
