"""Dispatch by Postgres and by Redis in one run: ``python -m bench.redis [--rounds 3] [--workers 50]``.

Each mode has a database and a fleet of worker processes, one of them with a keeper, on the same Postgres
server. The modes are measured in turns of a few seconds, and the fleet of the other mode is suspended
meanwhile, so that a noisy machine disturbs both alike. Prints one JSON object; ``ratio`` is redis / database:

- ``pickup_ms``: from the call of enqueue to the start of the handler, median, at two rates of single jobs.
- ``enqueue_ms``: the part of it until enqueue returns.
- ``claim_ms``: from queued_at to started_at, which is when the claim began. With many workers claiming at the
  same time it is much less than pickup_ms, because claims that began before the enqueue find the job too.
- ``idle_searches_per_s``: statements with which the idle fleet looks for work: claims, the rules of claims,
  and the counts of the relay.
- ``idle_statements_per_s``: all statements of the idle fleet: also heartbeats, definitions and the keeper.
- ``idle_by_component``: the same by connection.
- ``idle_transactions_per_s``: what Postgres counts as committed, with its own background processes.
- ``idle_connections``: of the fleet to Postgres.
- ``drain``: jobs per second from a full queue, by four workers.
- ``recovery_s``: in redis mode, from the end of a fault until the jobs that were enqueued during it and after
  it have ended.
- ``memory``: of Redis, in bytes, with an idle fleet and with a million ready jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from posthouse import testing
from posthouse.storage.embedded import attach_server

from .redis_server import RedisServer

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.tcp_proxy import Proxy  # type: ignore[import-not-found]

MODES = ("database", "redis")
SETTLE_SECONDS = 3.0
IDLE_SECONDS = 15.0
PICKUPS = {10: 30, 50: 75}
"""Jobs of a turn at each rate per second."""
DRAIN_JOBS = 20_000
DRAIN_WORKERS = 4
FAULT_SECONDS = 2.0
MANY = 1_000_000
SEARCHES = {"posthouse claims", "posthouse relay"}
PREFIX = "%a|%d|"
ENQUEUE: LiteralString = "select posthouse.enqueue('clock')"
FILL: LiteralString = (
    "select posthouse.enqueue_many((select jsonb_agg(jsonb_build_object('kind', %s::text)) "
    "from generate_series(1, %s)))"
)


class Fleet:
    """The workers of a mode, and its database."""

    def __init__(self, url: str, mode: str, redis_url: str, workers: int) -> None:
        self.mode = mode
        self.db = psycopg.connect(url, autocommit=True)
        settings = {"DATABASE_URL": url, "DISPATCH": mode, "REDIS_URL": redis_url}
        environment = {**os.environ, **{f"POSTHOUSE_{name}": value for name, value in settings.items()}}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.redis_fleet", str(workers)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait("select count(*) from posthouse.workers where stopped_at is null", workers)
        time.sleep(SETTLE_SECONDS)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Let the fleet work; suspend it afterwards."""
        os.killpg(self._process.pid, signal.SIGCONT)
        time.sleep(SETTLE_SECONDS)
        self.db.execute("truncate posthouse.history")
        try:
            yield
        finally:
            self.suspend()

    def suspend(self) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP)

    def number(self, statement: LiteralString) -> float:
        row = self.db.execute(statement).fetchone()
        assert row is not None
        return float(row[0])

    def _wait(self, count: LiteralString, least: int) -> None:
        while self.number(count) < least:
            time.sleep(0.02)

    def ended(self, jobs: int) -> None:
        """Wait until so many jobs have ended."""
        self._wait("select count(*) from posthouse.history", jobs)

    def pickups(self, rate: int) -> Iterator[tuple[str, float]]:
        """Yield names of figures and milliseconds, for single jobs."""
        self.db.execute("truncate posthouse.history")
        called: dict[UUID, float] = {}
        for _ in range(PICKUPS[rate]):
            at = time.time()
            row = self.db.execute(ENQUEUE).fetchone()
            assert row is not None
            called[row[0]] = at
            yield f"enqueue_ms_at_{rate}_per_s", 1000 * (time.time() - at)
            time.sleep(1 / rate)
        self.ended(PICKUPS[rate])
        rows = self.db.execute(
            "select id, (result #>> '{}')::float8, extract(epoch from started_at - queued_at)::float8 "
            "from posthouse.history"
        )
        for job, started, claim in rows:
            yield f"pickup_ms_at_{rate}_per_s", 1000 * (started - called[job])
            yield f"claim_ms_at_{rate}_per_s", 1000 * claim

    def fill(self, kind: str, jobs: int) -> None:
        for start in range(0, jobs, 20_000):
            self.db.execute(FILL, (kind, min(20_000, jobs - start)))

    def drain(self) -> float:
        """Return the jobs per second from a full queue."""
        self.db.execute("select posthouse.pause_queue('default')")
        self.fill("noop", DRAIN_JOBS)
        began = time.monotonic()
        self.db.execute("select posthouse.resume_queue('default')")
        self.ended(DRAIN_JOBS)
        return DRAIN_JOBS / (time.monotonic() - began)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait()
        self.db.close()


class Bench:
    def __init__(self, server: Any, folder: Path, stack: ExitStack) -> None:
        self._log = next(folder.rglob("server.log"))
        self._urls = {mode: stack.enter_context(testing.database(server.admin_url_for())) for mode in MODES}
        self._admin = stack.enter_context(psycopg.connect(server.admin_url_for(), autocommit=True))
        self._redis = stack.enter_context(RedisServer())
        self._proxy = stack.enter_context(Proxy("127.0.0.1", self._redis.port))

    @contextmanager
    def _fleets(self, workers: int) -> Iterator[list[Fleet]]:
        """Start the fleet of each mode. All are suspended."""
        with ExitStack() as stack:
            fleets = []
            for mode in MODES:
                fleets.append(Fleet(self._urls[mode], mode, self._redis.url, workers))
                stack.callback(fleets[-1].close)
                fleets[-1].suspend()
            yield fleets

    def idle_and_pickup(self, workers: int, rounds: int) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {mode: {} for mode in MODES}
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        with self._fleets(workers) as fleets:
            for number in range(rounds):
                for fleet in fleets if number % 2 == 0 else reversed(fleets):
                    with fleet.resumed():
                        for rate in PICKUPS:
                            for name, milliseconds in fleet.pickups(rate):
                                times[fleet.mode, name].append(milliseconds)
            for fleet in fleets:
                with fleet.resumed():
                    found[fleet.mode] = self._idle(fleet)
        for (mode, name), each in times.items():
            found[mode][name] = statistics.median(each)
        return found

    def _idle(self, fleet: Fleet) -> dict[str, Any]:
        time.sleep(SETTLE_SECONDS)
        self._log_statements("all")
        committed: LiteralString = (
            "select xact_commit from pg_stat_database where datname = current_database()"
        )
        time.sleep(1.0)  # until the setting is in effect everywhere
        start, before, began = self._log.stat().st_size, fleet.number(committed), time.monotonic()
        time.sleep(IDLE_SECONDS)
        end, after, spent = self._log.stat().st_size, fleet.number(committed), time.monotonic() - began
        self._log_statements("none")
        with self._log.open(errors="replace") as log:
            log.seek(start)
            counts = _statements(log.read(end - start), fleet.db.info.dbname)
        searches = sum(count for name, count in counts.items() if name in SEARCHES)
        return {
            "idle_searches_per_s": searches / spent,
            "idle_statements_per_s": sum(counts.values()) / spent,
            "idle_transactions_per_s": (after - before) / spent,
            "idle_connections": fleet.number(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and application_name like 'posthouse %'"
            ),
            "idle_by_component": {name: round(count / spent, 2) for name, count in counts.most_common()},
        }

    def _log_statements(self, which: str) -> None:
        self._admin.execute(f"alter system set log_statement = '{which}'")
        self._admin.execute("select pg_reload_conf()")

    def drain(self, rounds: int) -> dict[str, float]:
        rates = defaultdict(list)
        with self._fleets(DRAIN_WORKERS) as fleets:
            for number in range(rounds):
                for fleet in fleets if number % 2 == 0 else reversed(fleets):
                    with fleet.resumed():
                        rates[fleet.mode].append(fleet.drain())
        return {mode: statistics.median(each) for mode, each in rates.items()}

    def recovery(self) -> dict[str, float]:
        """Seconds from the end of each fault until the jobs enqueued during it and after it have ended."""
        redis, proxy = self._redis, self._proxy

        def restart() -> None:
            redis.kill()
            redis.start()

        def nothing() -> None:
            pass

        faults: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "kill": (redis.kill, redis.start),
            "hang": (redis.hang, redis.resume),
            "flushall": (nothing, redis.flush),
            "empty restart": (nothing, restart),
            "partition": (proxy.pause, proxy.resume),
        }
        found = {}
        fleet = Fleet(self._urls["redis"], "redis", f"redis://127.0.0.1:{proxy.port}/0", DRAIN_WORKERS)
        for name, (begin, end) in faults.items():
            fleet.db.execute("truncate posthouse.history")
            begin()
            time.sleep(FAULT_SECONDS)
            fleet.db.execute(ENQUEUE)
            end()
            began = time.monotonic()
            fleet.db.execute(ENQUEUE)
            fleet.ended(2)
            found[name] = time.monotonic() - began
        fleet.close()
        return found

    def memory(self) -> dict[str, int]:
        """Bytes that Redis uses with an idle fleet, and at most with a million ready jobs."""
        self._redis.flush()
        fleet = Fleet(self._urls["redis"], "redis", self._redis.url, DRAIN_WORKERS)
        with self._redis.client() as client:
            found = {"idle": int(client.info("memory")["used_memory"])}
            fleet.fill("hold", 1000)  # more than all slots
            fleet.fill("noop", MANY)
            most = 0
            for _ in range(20):
                time.sleep(0.25)
                most = max(most, int(client.info("memory")["used_memory"]))
            found["ready_jobs"] = int(fleet.number("select count(*) from posthouse.ready"))
            found["with_ready_jobs"] = most
            found["entries"] = sum(client.xlen(key) for key in client.scan_iter("{posthouse}:*:default"))
        fleet.db.execute("select posthouse.pause_queue('default')")
        fleet.close()
        return found


def _statements(log: str, database: str) -> Counter[str]:
    """Count the statements in a database by the name of the connection."""
    counts: Counter[str] = Counter()
    for line in log.splitlines():
        name, _, rest = line.partition("|")
        found, _, text = rest.partition("|")
        if found == database and text.startswith(("LOG:  execute ", "LOG:  statement: ")):
            counts[name] += 1
    return Counter({name: count for name, count in counts.items() if name.startswith("posthouse ")})


def _with_ratios(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, ours in found["database"].items():
        theirs = found["redis"][name]
        figures[name] = {"database": ours, "redis": theirs}
        if isinstance(ours, float):
            figures[name] = {
                "database": round(ours, 2),
                "redis": round(theirs, 2),
                "ratio": round(theirs / ours, 3),
            }
    return figures


def measure(bench: Bench, workers: int, rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = _with_ratios(bench.idle_and_pickup(workers, rounds))
    found |= _with_ratios({mode: {"drain": rate} for mode, rate in bench.drain(rounds).items()})
    found["recovery_s"] = {name: round(seconds, 2) for name, seconds in bench.recovery().items()}
    found["memory"] = bench.memory()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=50)
    options = parser.parse_args()
    settings = {"fsync": "off", "max_connections": "900", "log_line_prefix": PREFIX}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="posthouse-redis-")))
        server = stack.enter_context(attach_server(folder / "postgres", settings=settings))
        print(json.dumps(measure(Bench(server, folder, stack), options.workers, options.rounds), indent=1))


if __name__ == "__main__":
    main()
