"""`python -m bench.limits`: what limits cost, and how soon a small tenant is served beside a large one.

The drain with limits takes turns with one without, in a database beside it. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

import psycopg

from posthouse import Client, Request, testing
from posthouse.bench.fleet import PAYLOAD, fleet
from posthouse.bench.measures import drain_rate, fill
from posthouse.storage.database import close_embedded

JOBS = 40_000
ROUNDS = 5
LIMITS: dict[str, dict[str, Any]] = {
    "kind": {"kinds": ["noop"], "max_running": 5_000},
    "tenant": {"per": "tenant", "max_running": 5_000},
    "rate": {"rate": 1_000_000, "burst": 1_000_000},
}
BACKLOG = 100_000
SMALL = 20


def set_limits(url: str) -> None:
    with psycopg.connect(url) as connection:
        for name, fields in LIMITS.items():
            connection.execute("select posthouse.set_limit(%s, %s::jsonb)", (name, json.dumps(fields)))


async def limits_ratio(url: str, jobs: int = JOBS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Drain with three limits on, none of them reached, over the drain without."""
    set_limits(url)
    limited: list[float] = []
    free: list[float] = []
    with testing.database(url) as beside:
        for _ in range(rounds):
            for database, rates in ((url, limited), (beside, free)):
                await fill(database, jobs)
                rates.append(await drain_rate(database, jobs))
    return {
        "limits_ratio": round(statistics.median(limited) / statistics.median(free), 3),
        "limits_rates": {
            "with": round(statistics.median(limited)),
            "without": round(statistics.median(free)),
        },
    }


async def plan_claim(url: str) -> dict[str, Any]:
    """While one tenant has 100,000 jobs queued: from the enqueue of another's three to their start."""
    waits: list[float] = []
    async with Client(url) as client:
        large = [Request(kind="noop", payload=PAYLOAD, tenant="large")] * BACKLOG
        await client.enqueue_many(large)
        with fleet(url, 1):
            for _ in range(SMALL):
                handles = await client.enqueue_many([Request(kind="stamp", tenant="small")] * 3)
                committed = time.time()
                waits += [max(0.0, await handle.wait("60s") - committed) for handle in handles]
    return {"fair_share_s": {"p50": round(statistics.median(waits), 3), "max": round(max(waits), 3)}}


def main() -> None:
    found: dict[str, Any] = {}
    try:
        for measure in (limits_ratio, plan_claim):
            with testing.database() as url:
                found |= asyncio.run(measure(url))
    finally:
        close_embedded()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
