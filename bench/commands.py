"""`python -m bench.commands`: what a command costs over ``subprocess.run``, as one JSON object.

The runner alone, and the whole way through a worker: from the claim of a job until its end is stored, with
its output, as the database's clock has it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any

import posthouse
from posthouse import testing
from posthouse.commands import CommandRunner, CommandSpec
from posthouse.definitions import create_definition
from posthouse.settings import Settings
from posthouse.storage.connections import connect_async

ROUNDS = 300
AT_A_TIME = 8
IN_ALL = 400
TRUE = shutil.which("true") or "/bin/true"
SPEC = CommandSpec(argv=[TRUE])


async def main(url: str) -> None:
    async with CommandRunner() as runner:
        await runner.run(SPEC, {})
        ours, plain = await _side_by_side(lambda: runner.run(SPEC, {}))
        found = {
            "subprocess_run_ms": round(plain, 3),
            "command_runner_ms": round(ours, 3),
            "command_runner_over_subprocess_run_ms": round(ours - plain, 3),
            f"commands_per_second_{AT_A_TIME}_at_a_time": round(await _throughput(runner)),
        }
    print(json.dumps({**found, **await _through_a_worker(url)}))


async def _side_by_side(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Medians in milliseconds. They take turns, so that other load affects both."""
    ours, plain = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([TRUE], capture_output=True, check=True)  # noqa: ASYNC221 - nothing else runs
        middle = time.perf_counter()
        await work()
        plain.append(middle - start)
        ours.append(time.perf_counter() - middle)
    return statistics.median(ours) * 1000, statistics.median(plain) * 1000


async def _throughput(runner: CommandRunner) -> float:
    left = iter(range(IN_ALL))

    async def one_after_another() -> None:
        for _ in left:
            await runner.run(SPEC, {})

    start = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(AT_A_TIME)))
    return IN_ALL / (time.perf_counter() - start)


async def _through_a_worker(url: str) -> dict[str, float]:
    settings = Settings(database_url=url, commands=True)
    async with posthouse.App(settings=settings) as app, await connect_async(url, "bench") as db:
        await create_definition(db, "nothing", {"command": {"argv": [TRUE]}}, actor="bench")
        worker = await app.worker()
        await worker.start()

        async def one_job() -> None:
            await app.client.wait((await app.client.enqueue("nothing")).id)

        await one_job()
        await db.execute("delete from posthouse.history")
        whole, plain = await _side_by_side(one_job)
        row = await (
            await db.execute(
                "select 1000 * percentile_cont(0.5) within group ("
                "order by extract(epoch from finished_at - attempt_started_at)) from posthouse.history"
            )
        ).fetchone()
        start = time.perf_counter()
        jobs = [await app.client.enqueue("nothing") for _ in range(IN_ALL)]
        for job in jobs:
            await app.client.wait(job.id)
        rate = IN_ALL / (time.perf_counter() - start)
        await worker.stop()
    claimed_to_ended = float(row[0]) if row else 0.0
    return {
        "job_claimed_to_ended_ms": round(claimed_to_ended, 3),
        "job_over_subprocess_run_ms": round(claimed_to_ended - plain, 3),
        "job_enqueued_to_known_ms": round(whole, 3),
        "jobs_per_second": round(rate),
    }


if __name__ == "__main__":
    with testing.database() as url:
        asyncio.run(main(url))
