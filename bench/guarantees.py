"""The drain with what users turn on: ordered keys, limits, fair share between tenants; history is always on.

Each key has the same number of jobs, which run one after the other. None of the limits is reached.
"""

from __future__ import annotations

import statistics
from typing import Any

from posthouse import Client, Request
from posthouse.bench.fleet import PAYLOAD
from posthouse.bench.measures import drain_queued

from .limits import set_limits

JOBS = 10_000
TURNS = 3
JOBS_PER_KEY = 10
TENANTS = 20
GUARANTEES = "ordered keys, limits per kind and tenant, rate limit, fair share, history"


async def drains_with_guarantees(url: str, jobs: int = JOBS, turns: int = TURNS) -> dict[str, Any]:
    set_limits(url)
    found: dict[str, Any] = {"guarantees": GUARANTEES}
    for workers in (1, 2):
        rates = [await _drain(url, workers, jobs) for _ in range(turns)]
        found[f"drain_{workers}_guarantees"] = round(statistics.median(rates))
    return found


async def _drain(url: str, workers: int, jobs: int) -> float:
    keys = max(1, jobs // JOBS_PER_KEY)
    requests = [
        Request(
            kind="noop",
            payload=PAYLOAD,
            # A key belongs to one tenant.
            tenant=f"tenant-{number % keys % TENANTS}",
            order_key=f"key-{number % keys}",
        )
        for number in range(jobs)
    ]
    async with Client(url) as client:
        handles = await client.enqueue_many(requests)
    last = [handle.id for handle in handles[-keys:]]
    return float((await drain_queued(url, workers, jobs, last))[f"drain_{workers}"])
