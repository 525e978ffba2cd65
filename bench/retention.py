"""What retention costs on a long history, and whom it holds up: ``python -m bench.retention``.

A history of 5,000,000 jobs in ten days, made in SQL, is deleted by a round of retention while a client
finishes jobs: with nothing that hangs on them, with payloads and keys, with a tenant that keeps its jobs
longer, and with one that keeps them shorter while the others stay. Prints one JSON object; times in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

from posthouse import testing
from posthouse.keeper.retention import RetentionRun
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.database import close_embedded

DAYS = 10
OLDEST = 40
ROWS = 5_000_000
ASIDE = 50
"""One job in so many has a large payload, which lies beside it, and a dedupe key with a window."""


def fill(db: psycopg.Connection[Any], rows: int, *, aside: int = ASIDE) -> None:
    """Ended jobs of ten days, forty days ago; one tenant in ten is ``acme``, one in a hundred ``brief``."""
    for day in range(OLDEST - DAYS, OLDEST):
        db.execute(
            "select posthouse.create_partition('history', (posthouse.now() - %s::interval)::date)",
            (f"{day} days",),
        )
    db.execute(FILL, {"rows": rows, "days": DAYS, "oldest": OLDEST, "aside": aside})
    db.execute(
        'insert into posthouse.payloads select id, \'{"text": "large"}\' from posthouse.history '
        "where payload is null"
    )
    db.execute(
        "insert into posthouse.dedupe_keys (tenant_id, dedupe_key, job_id, is_active, expires_at) "
        "select tenant_id, dedupe_key, id, false, posthouse.now() + interval '1 year' from posthouse.history "
        "where dedupe_key is not null"
    )
    db.execute("vacuum analyze posthouse.history, posthouse.payloads, posthouse.dedupe_keys")


FILL = """
insert into posthouse.history (
  id, queued_at, scheduled_for, started_at, priority, attempt_count, max_attempts, generation, crashes,
  snoozes, tenant_id, kind, queue, source, payload, dedupe_key, lane, position, token, worker_id,
  attempt_started_at, lease_expires_at, finished_at, status, outcome, result)
select
  gen_random_uuid(), at, at, at, 100, 1, 3, 1, 0, 0,
  case when mod(n, 10) = 0 then 'acme' when mod(n, 100) = 1 then 'brief' else 'default' end, 'noop',
  'default', 'manual', case when mod(n, %(aside)s) <> 0 then '{"number": 1}'::jsonb end,
  case when mod(n, %(aside)s) = 0 then 'key ' || n end,
  1, n, gen_random_uuid(), '00000000-0000-0000-0000-000000000001', at, at, at, o.outcome, o.outcome,
  '{"done": true}'
from generate_series(1, %(rows)s) as n
cross join lateral (
  select date_trunc('day', posthouse.now(), 'UTC')
    - make_interval(days => %(oldest)s - 1 - n * %(days)s / (%(rows)s + 1), secs => -mod(n, 80000))) as t (at)
cross join lateral (select case when mod(n, 200) = 0 then 'failed' else 'succeeded' end) as o (outcome)
"""
FINISH = """
select posthouse.succeed(array[c.id], array[c.token], null)
from posthouse.claim(gen_random_uuid(), gen_random_uuid(), '{default}', '{noop}', 1, interval '1 minute') as c
"""


class Finisher(threading.Thread):
    """Ends jobs one after the other, and remembers how long the slowest took."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.stopping = threading.Event()
        self.times: list[float] = []

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as db:
            while not self.stopping.is_set():
                db.execute("select posthouse.enqueue('noop')")
                started = time.perf_counter()
                db.execute(FINISH)
                self.times.append(time.perf_counter() - started)

    def stop(self) -> None:
        self.stopping.set()
        self.join()


async def retain(url: str, days: float) -> dict[str, int]:
    connection = ReconnectingConnection(url, "bench")
    try:
        return await RetentionRun(connection, {"default": days}).run()
    finally:
        await connection.close()


def measured(url: str, days: float) -> dict[str, Any]:
    """One round, while a client finishes jobs."""
    finisher = Finisher(url)
    finisher.start()
    started = time.perf_counter()
    counts = asyncio.run(retain(url, days))
    seconds = time.perf_counter() - started
    finisher.stop()
    return {
        "seconds": round(seconds, 2),
        "finishes": len(finisher.times),
        "slowest_finish": round(max(finisher.times, default=0.0), 3),
        **counts,
    }


@dataclass(frozen=True)
class Scene:
    """How long jobs are kept, whose are kept longer or shorter, and on how many something hangs."""

    days: float = 25.0
    tenants: dict[str, float] = field(default_factory=dict)
    aside: int = ASIDE


SCENES = {
    "bare": Scene(aside=10**9),
    "plain": Scene(),
    "longer": Scene(tenants={"acme": 90.0}),
    "shorter": Scene(days=90.0, tenants={"brief": 1.0}),
}


def played(rows: int, scene: Scene) -> dict[str, Any]:
    with testing.database() as url, psycopg.connect(url, autocommit=True) as db:
        fill(db, rows, aside=scene.aside)
        for tenant, days in scene.tenants.items():
            db.execute("select posthouse.create_tenant(%s, '{}')", (tenant,))
            db.execute("select posthouse.set_tenant_retention(%s, %s)", (tenant, days))
        found = measured(url, scene.days)
        left = db.execute(
            "select count(*) from posthouse.history where finished_at < posthouse.now() - interval '25 days'"
        ).fetchone()
        return {**found, "left": left and left[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--scene", choices=SCENES, action="append")
    wanted = parser.parse_args()
    found: dict[str, Any] = {"rows": wanted.rows}
    try:
        for name in wanted.scene or SCENES:
            found[name] = played(wanted.rows, SCENES[name])
    finally:
        close_embedded()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
