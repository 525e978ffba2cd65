"""How long a page of jobs takes at the database: ``python -m bench.listing``.

A history of 5,000,000 ended jobs of ten days and a backlog, made in SQL. One tenant has nearly all of them,
one a thousandth, one a handful. Each page of 50 is read as the API reads it: as posthouse_tenant, under
row-level security, in a transaction. Prints one JSON object; times in milliseconds, those of the slower half.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg

from posthouse import insights, testing
from posthouse.insights import JobFilter
from posthouse.storage.connections import connect_async, tenant_transaction
from posthouse.storage.database import close_embedded

ROWS = 5_000_000
BACKLOG = 200_000
DAYS = 10
TRIES = 6
TENANTS: dict[str, str | None] = {"big": "big", "small": "small", "tiny": "tiny", "all": None}

FILL = """
insert into posthouse.history (
  id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts, generation, crashes,
  snoozes, tenant_id, kind, queue, source, payload, correlation_id, subject, lane, position, token, worker_id,
  attempt_started_at, lease_expires_at, finished_at, status, outcome, result)
select
  posthouse.bench_id(at, n), at, at, at, 100, 1, 3, 1, 0, 0,
  case when mod(n, 100000) = 7 then 'tiny' when mod(n, 1000) = 3 then 'small' else 'big' end,
  case when mod(n, 10000) = 0 then 'rare' else 'noop' end,
  case when mod(n, 10) = 0 then 'slow' else 'default' end,
  'manual', '{"number": 1}', case when mod(n, 100) = 0 then 'c-' || n / 1000 end,
  case when mod(n, 50) = 0 then 's-' || mod(n, 1000) end, 1, n, gen_random_uuid(),
  '00000000-0000-0000-0000-000000000001', at, at, at + interval '1 second', o.outcome, o.outcome,
  '{"done": true}'
from generate_series(%(from)s::bigint, %(to)s::bigint) as n
cross join lateral (
  select posthouse.now() - interval '10 days' + interval '10 days' * n / (%(rows)s + 1)) as t (at)
cross join lateral (
  select case when mod(n, 20000) = 19999 then 'dead_letter' when mod(n, 500) = 4 then 'failed'
  when mod(n, 1000) = 5 then 'canceled' else 'succeeded' end) as o (outcome)
"""
MAKE_ID = """
create function posthouse.bench_id(p_at timestamptz, p_n bigint) returns uuid language sql immutable as $$
  select (lpad(to_hex((extract(epoch from p_at) * 1000)::bigint), 12, '0') || '7000' || '8000'
    || lpad(to_hex(p_n), 12, '0'))::uuid $$
"""
QUEUE = """
insert into posthouse.ready (
  id, queued_at, scheduled_for, priority, max_attempts, tenant_id, kind, queue, payload, lane)
select posthouse.new_id(), posthouse.now(), posthouse.now(), 100, 3, t.tenant, 'noop', 'default', '{}',
  posthouse.lane_number('default', 'noop', t.tenant, 100, 2)
from generate_series(1, %s) as n
cross join lateral (
  select case when mod(n, 10000) = 7 then 'tiny' when mod(n, 1000) = 3 then 'small' else 'big' end)
  as t (tenant)
"""


def fill(db: psycopg.Connection[Any], rows: int, backlog: int) -> None:
    for day in range(DAYS + 1):
        db.execute(
            "select posthouse.create_partition('history', (posthouse.now() - %s::interval)::date)",
            (f"{day} days",),
        )
    db.execute(MAKE_ID)
    for start in range(1, rows + 1, 500_000):
        db.execute(FILL, {"from": start, "to": min(start + 499_999, rows), "rows": rows})
    db.execute(QUEUE, (backlog,))
    db.execute(
        "insert into posthouse.lanes (lane, queue, kind, tenant_id, priority, rank) "
        "select distinct lane, queue, kind, tenant_id, priority, 2 from posthouse.ready"
    )
    db.execute("vacuum analyze posthouse.history, posthouse.ready, posthouse.lanes")


def filters(now: datetime) -> Iterator[tuple[str, dict[str, Any]]]:
    old, older = now - timedelta(days=3), now - timedelta(days=6)
    for status in (None, "queued", "running", "succeeded", "failed", "canceled", "dead_letter"):
        chosen = {} if status is None else {"statuses": [status]}
        yield status or "any", chosen
        yield f"{status or 'any'}, created_after", {**chosen, "created_after": old}
        yield f"{status or 'any'}, created_before", {**chosen, "created_before": old}
        yield f"{status or 'any'}, between", {**chosen, "created_after": older, "created_before": old}
    yield "kind", {"kind": "rare"}
    yield "kind that none has", {"kind": "none"}
    yield "queue", {"queue": "slow"}
    yield "source that none has", {"source": "event"}
    yield "correlation", {"correlation": "c-1000"}
    yield "subject", {"subject": "s-50"}
    yield "offset", {"offset": 10_000}


async def timed(url: str, tenant: str | None, chosen: dict[str, Any]) -> tuple[float, int]:
    times, found = [], 0
    async with await connect_async(url, "bench") as connection:
        for _ in range(TRIES):
            async with tenant_transaction(connection, tenant, seconds=60) as db:
                started = time.perf_counter()
                page = await insights.page_of_jobs(db, JobFilter(tenant=tenant, **chosen))
                times.append((time.perf_counter() - started) * 1000)
                found = len(page.jobs)
    return statistics.median(sorted(times)[TRIES // 2 :]), found


async def measured(url: str) -> dict[str, Any]:
    async with await connect_async(url, "bench") as connection:
        now = await insights.database_now(connection)
    result: dict[str, Any] = {}
    for name, tenant in TENANTS.items():
        pages = {what: await timed(url, tenant, chosen) for what, chosen in filters(now)}
        slowest = max(pages, key=lambda what: pages[what][0])
        result[name] = {
            "slowest": slowest,
            "slowest_ms": round(pages[slowest][0], 1),
            "median_ms": round(statistics.median(ms for ms, _ in pages.values()), 1),
            "pages": {what: [round(ms, 1), found] for what, (ms, found) in pages.items()},
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--backlog", type=int, default=BACKLOG)
    wanted = parser.parse_args()
    try:
        with testing.database() as url:
            with psycopg.connect(url, autocommit=True) as db:
                fill(db, wanted.rows, wanted.backlog)
            print(json.dumps({"rows": wanted.rows, **asyncio.run(measured(url))}))
    finally:
        close_embedded()


if __name__ == "__main__":
    main()
