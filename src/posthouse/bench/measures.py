"""Each measure: set the stage, run, read the database's times."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import truediv
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from posthouse import testing
from posthouse.bench.fleet import PAYLOAD, fleet, machine_cpu_us, measure_limit
from posthouse.client.client import Client
from posthouse.core.request import Request
from posthouse.storage.actions import pause_queue, resume_queue
from posthouse.storage.queries import query

QUEUE = "default"
PICKUP_PER_SECOND = 40
SINGLE_RATE = 100
SINGLE_SECONDS = 4
HELD = 0.95
"""Share of a rate from which on it counts as held."""
KILOBYTE = 1000


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many jobs and turns each measure takes."""

    drain_jobs: int = 80_000
    drain_turns: int = 5
    one_seconds: float = 2.0
    bulk_jobs: int = 50_000
    bulk_turns: int = 7
    pickup_jobs: int = 240
    pinned_jobs: int = 20_000
    pinned_rounds: int = 6
    backlog_jobs: int = 1_000_000
    backlog_rounds: int = 15  # of some 0.15 s each, so single ratios differ by 20 %
    small_jobs: int = 10_000
    rescues: int = 5


FULL = Sizes()


def small_sizes(jobs: int) -> Sizes:
    """Return sizes for a check of the benchmark itself: each measure runs, its figures mean nothing."""
    return Sizes(
        drain_jobs=jobs,
        drain_turns=1,
        one_seconds=0.2,
        bulk_jobs=jobs,
        bulk_turns=1,
        pickup_jobs=min(jobs, 20),
        pinned_jobs=jobs,
        pinned_rounds=2,
        backlog_jobs=10 * jobs,
        backlog_rounds=1,
        small_jobs=jobs,
        rescues=1,
    )


async def fill(url: str, jobs: int) -> UUID:
    """Queue that many no-ops; returns the last one's id."""
    await _define(url)
    async with Client(url) as client:
        for start in range(0, jobs, 100_000):
            count = min(100_000, jobs - start)
            handles = await client.enqueue_many([Request(kind="noop", payload=PAYLOAD)] * count)
    return handles[-1].id


async def _define(url: str) -> None:
    async with await _connect(url) as connection:
        await connection.execute(query("bench_define"))


async def reset(url: str) -> None:
    """Empty every place, as a new database would be."""
    async with await _connect(url) as connection:
        await connection.execute(query("bench_reset"))
        await connection.execute("checkpoint")


async def limit(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    await fill(url, sizes.drain_jobs)
    found = await measure_limit(url, sizes.drain_jobs)
    await reset(url)
    return {
        "limit": round(found.rate),
        "backend_us_per_job": _rounded(found.backend_us_per_job),
        "wal_bytes_per_job": round(found.wal_bytes_per_job),
    }


async def drain(url: str, workers: int, jobs: int) -> dict[str, Any]:
    return await drain_queued(url, workers, jobs, [await fill(url, jobs)])


async def drain_queued(url: str, workers: int, jobs: int, last: list[UUID]) -> dict[str, Any]:
    """The rate of workers that are all ready when the first job starts; ``last`` ends each line."""
    async with await _connect(url) as connection:
        await pause_queue(connection, QUEUE, actor="bench")
        with fleet(url, workers) as processes:
            used = machine_cpu_us()
            await resume_queue(connection, QUEUE, actor="bench")
            await until_ended(url, *last)
            spent = machine_cpu_us()
            rss = max((process.rss_mb() or 0.0 for process in processes), default=0.0)
    rate = await _rate(url)
    await reset(url)
    cpu = None if used is None or spent is None else round((spent - used) / jobs, 1)
    return {f"drain_{workers}": round(rate), "rss_mb": round(rss, 1), "machine_us_per_job": cpu}


async def enqueue(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    await _define(url)
    async with Client(url) as client:
        await client.enqueue("noop", PAYLOAD)
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < sizes.one_seconds:
            await client.enqueue("noop", PAYLOAD)
            count += 1
        one = count / (time.perf_counter() - started)
        requests = [Request(kind="noop", payload=PAYLOAD) for _ in range(sizes.bulk_jobs)]
        rates = []
        for _ in range(sizes.bulk_turns):
            started = time.perf_counter()
            await client.enqueue_many(requests)
            rates.append(sizes.bulk_jobs / (time.perf_counter() - started))
    await reset(url)
    return {"enqueue_one": round(one), "enqueue_bulk": round(statistics.median(rates))}


async def latency(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    """With one idle worker: how long a committed job waits for its handler to start, and the whole way there
    from just before the call that enqueues it.
    """
    pickups, ways = [], []
    with fleet(url, 1):
        async with Client(url) as client:
            for _ in range(20):
                await (await client.enqueue("stamp")).wait("10s")
            sent = []
            for _ in range(sizes.pickup_jobs):
                asked = time.time()
                handle = await client.enqueue("stamp")
                sent.append((asked, time.time(), handle))
                await asyncio.sleep(max(0.0, asked + 1 / PICKUP_PER_SECOND - time.time()))
            for asked, committed, handle in sent:
                started = await handle.wait("30s")
                pickups.append(max(0.0, started - committed) * 1000)
                ways.append((started - asked) * 1000)
    await reset(url)
    return {"pickup_ms": _percentiles(pickups), "enqueue_to_start_ms": _percentiles(ways)}


async def single(url: str) -> dict[str, Any]:
    """Jobs of 1 kB, one per statement, at rates that double until one is not held: from the time at which a
    job was due to be enqueued to the start of its handler, on one worker.
    """
    rounds: list[dict[str, float]] = []
    with fleet(url, 1):
        async with Client(url) as client:
            await _send_at(client, url, SINGLE_RATE)  # to warm up
            rate = SINGLE_RATE
            while not rounds or rounds[-1]["rate"] >= HELD * rate / 2:
                rounds.append(await _send_at(client, url, rate))
                rate *= 2
    await reset(url)
    held = [each for number, each in enumerate(rounds) if each["rate"] >= HELD * SINGLE_RATE * 2**number]
    return {"single": held[-1] if held else None, "single_rounds": rounds}


async def _send_at(client: Client, url: str, rate: int) -> dict[str, float]:
    """Return the rate at which jobs started, and percentiles of their delay in ms."""
    begin = time.time()

    async def send(number: int) -> tuple[UUID, float]:
        due = begin + number / rate
        await asyncio.sleep(due - time.time())
        return (await client.enqueue("stamp_text", {"text": "x" * KILOBYTE})).id, due

    due = dict(await asyncio.gather(*(send(number) for number in range(rate * SINGLE_SECONDS))))
    async with await _connect(url) as connection:
        rows: list[Any] = []
        while len(rows) < len(due):
            await asyncio.sleep(0.1)
            rows = await (await connection.execute(query("bench_results"), (list(due),))).fetchall()
    delays = [(float(started) - due[job]) * 1000 for job, started in rows]
    spent = max(float(started) for _, started in rows) - begin
    return {"rate": round(len(due) / spent), **_percentiles(delays)}


async def pinned(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    """One worker over several rounds while an idle transaction pins the horizon.

    Another one, in a database beside it that is not pinned, takes turns with it: the speed of the machine,
    which changes for seconds at a time, cancels out. The first rounds are compared with the last ones.
    """
    rates, beside = [], []
    with testing.database(url) as control, fleet(url, 1), fleet(control, 1), psycopg.connect(url) as pinning:
        await _round(url, sizes.pinned_jobs)  # to warm up, before the pin
        await _round(control, sizes.pinned_jobs)
        pinning.execute("set transaction isolation level repeatable read")
        pinning.execute("select count(*) from posthouse.ready")
        for _ in range(sizes.pinned_rounds):
            rates.append(await _round(url, sizes.pinned_jobs))
            beside.append(await _round(control, sizes.pinned_jobs))
        pinning.rollback()
    await reset(url)
    shares = [pinned / free for pinned, free in zip(rates, beside, strict=True)]
    return {
        "pinned_ratio": round(sum(shares[-2:]) / sum(shares[:2]), 3),
        "pinned_rounds": [round(rate) for rate in rates],
        "unpinned_rounds": [round(rate) for rate in beside],
    }


async def backlog(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    """The first part of a deep queue beside a small one, in two databases, taking turns: each round is
    compared with the one right before it.
    """
    deep, small = [], []
    with testing.database(url) as control:
        await fill(url, sizes.backlog_jobs)
        for _ in range(sizes.backlog_rounds):
            await fill(control, sizes.small_jobs)
            await _come_to_rest(url, control)
            small.append(await drain_rate(control, sizes.small_jobs))
            deep.append(await drain_rate(url, sizes.small_jobs))
    await reset(url)
    return {
        "backlog_ratio": round(statistics.median(map(truediv, deep, small)), 3),
        "backlog_rounds": [[round(rate) for rate in pair] for pair in zip(small, deep, strict=True)],
    }


async def _come_to_rest(*urls: str) -> None:
    """Vacuums what was filled: else autovacuum does so during the measure. And a checkpoint, since the first
    change of a page after one is dearer: jobs of both queues are older than it.
    """
    for url in urls:
        async with await _connect(url) as connection:
            await connection.execute("vacuum (analyze) posthouse.ready")
            await connection.execute("checkpoint")


async def _round(url: str, jobs: int) -> float:
    """Fills the queue for a worker that waits for it; returns its rate."""
    since = await _value(url, "bench_now")
    last = await fill(url, jobs)
    await until_ended(url, last)
    return await _stretch_rate(url, jobs, since)


async def drain_rate(url: str, jobs: int) -> float:
    """The rate of a new worker over the first so many jobs of a full queue."""
    since = await _value(url, "bench_now")
    last = await _value(url, "bench_nth", (jobs,))
    with fleet(url, 1):
        await until_ended(url, last)
    return await _stretch_rate(url, jobs, since)


async def rescue(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    """From SIGKILL of the worker to the start of its job on another one."""
    waits = []
    async with Client(url) as client, await _connect(url) as connection:
        for _ in range(sizes.rescues):
            with fleet(url, 1) as (victim,):
                handle = await client.enqueue("linger")
                await _until(connection, "bench_running", handle.id, lambda row: row is not None)
                with fleet(url, 1):
                    killed = time.time()
                    victim.kill()
                    row = await _until(
                        connection, "bench_second_start", handle.id, lambda row: row is not None
                    )
                    waits.append(row[0].timestamp() - killed)
                    await handle.wait("30s")
    await reset(url)
    return {"rescue_s": {"p50": round(statistics.median(waits), 2), "max": round(max(waits), 2)}}


async def all_drains(url: str, sizes: Sizes = FULL) -> dict[str, Any]:
    """Drain by the bare loop, by one worker and by two, in turns: the machine's speed changes from second to
    second. The turn with the median ratio of the first two counts, and the median of the drains by two.
    """
    jobs = sizes.drain_jobs
    turns = [
        (await limit(url, sizes), await drain(url, 1, jobs), await drain(url, 2, jobs))
        for _ in range(sizes.drain_turns)
    ]
    bare, one, _ = sorted(turns, key=lambda turn: _ratio(*turn[:2]))[len(turns) // 2]
    return {
        **bare,
        **one,
        "drain_2": statistics.median_low(two["drain_2"] for _, _, two in turns),
        "rss_mb": max(drained["rss_mb"] for _, *drains in turns for drained in drains),
        "drain_ratio": round(_ratio(bare, one), 3),
        "limit_rounds": [bare["limit"] for bare, _, _ in turns],
        "drain_1_rounds": [one["drain_1"] for _, one, _ in turns],
        "drain_2_rounds": [two["drain_2"] for _, _, two in turns],
    }


def _ratio(bare: dict[str, Any], one: dict[str, Any]) -> float:
    return float(one["drain_1"] / bare["limit"])


MEASURES: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "drain": all_drains,
    "enqueue": enqueue,
    "latency": latency,
    "pinned": pinned,
    "backlog": backlog,
    "rescue": rescue,
    "single": single,
}
DEFAULT_MEASURES = tuple(name for name in MEASURES if name != "single")


async def _connect(url: str) -> AsyncConnection[tuple[Any, ...]]:
    return await AsyncConnection.connect(url, autocommit=True)


async def until_ended(url: str, *job_ids: UUID) -> None:
    """Waits for the last job of each line: counting what has ended would cost what is being measured."""
    async with await _connect(url) as connection:
        for job_id in job_ids:
            await _until(connection, "bench_ended", job_id, lambda row: row is not None)


async def _until(
    connection: AsyncConnection[tuple[Any, ...]], name: str, job_id: Any, good: Callable[[Any], bool]
) -> Any:
    while True:
        cursor = await connection.execute(query(name), (job_id,))
        row = await cursor.fetchone()
        if good(row):
            return row
        await asyncio.sleep(0.02)


async def _rate(url: str) -> float:
    """Jobs a second over all ended jobs, from the first start to the last end."""
    return float(await _value(url, "bench_rate"))


async def _stretch_rate(url: str, jobs: int, since: Any) -> float:
    return float(await _value(url, "bench_stretch_rate", {"jobs": jobs, "since": since}))


async def _value(url: str, name: str, parameters: Any = ()) -> Any:
    async with await _connect(url) as connection:
        cursor = await connection.execute(query(name), parameters)
        row = await cursor.fetchone()
        assert row is not None
        return row[0]


def _percentiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2), "p99": round(cuts[98], 2)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
