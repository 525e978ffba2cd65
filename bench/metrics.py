"""What a scrape costs with a large backlog: ``python -m bench.metrics``.

A million queued jobs of a thousand tenants, and totals of as many; then /metrics of a fresh server process,
and again while its answer is remembered. Prints one JSON object; times in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from typing import Any

import psycopg

from posthouse import testing
from posthouse.storage.database import close_embedded

from .serving import serving

FILL = """
insert into posthouse.ready (
  id, queued_at, scheduled_for, priority, max_attempts, tenant_id, kind, queue, payload, lane)
select gen_random_uuid(), now(), now(), 100, 3, 'tenant-' || n %% %(tenants)s, 'kind-' || n %% 7,
       'queue-' || n %% 5, '{}', n %% 1000
from generate_series(1, %(jobs)s) as n
"""
TOTALS = """
insert into posthouse.total_jobs
select 'tenant-' || n, 'queue-' || k, 'kind-' || k, now(), 1, 1, 1, 0, 0, 0, 0
from generate_series(1, %(tenants)s) as n, generate_series(1, 5) as k
"""


def scrape(address: str) -> tuple[float, int]:
    began = time.perf_counter()
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        text = answer.read()
    return round((time.perf_counter() - began) * 1000, 1), len(text.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=1000)
    wanted = parser.parse_args()
    size: dict[str, Any] = {"jobs": wanted.jobs, "tenants": wanted.tenants}
    try:
        with testing.database() as url:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(FILL, size)
                connection.execute(TOTALS, size)
                connection.execute("vacuum analyze posthouse.ready")
            with serving(url) as address:
                (first, lines), (again, _) = scrape(address), scrape(address)
        print(json.dumps({**size, "first_ms": first, "remembered_ms": again, "lines": lines}))
    finally:
        close_embedded()


if __name__ == "__main__":
    main()
