"""The SQL engine as tests drive it: its functions by name, and a look at every place."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from threading import Thread
from uuid import uuid4

import psycopg
from psycopg.rows import dict_row, namedtuple_row

from posthouse.keeper.retention import RetentionRun
from posthouse.storage.connections import ReconnectingConnection
from support.databases import clear_written

HOUR = 3600


class Engine:
    """Calls on one connection. ``new_connection()`` is the same database through a connection of its own."""

    def __init__(self, connection, url):
        self.connection = connection
        self.url = url
        self.worker = uuid4()
        self.base = 0.0

    @contextmanager
    def new_connection(self, *, autocommit=True):
        with psycopg.connect(self.url, autocommit=autocommit) as connection:
            other = Engine(connection, self.url)
            try:
                yield other
            finally:
                if not connection.closed:
                    connection.rollback()

    def commit(self):
        self.connection.commit()

    def rows(self, statement, *values):
        with self.connection.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(statement, values).fetchall()

    def row(self, statement, *values):
        found = self.rows(statement, *values)
        assert len(found) == 1, found
        return found[0]

    def value(self, statement, *values):
        return self.row(statement, *values)[0]

    # The way in.

    def enqueue_many(self, *jobs):
        """(id, outcome) of each, in order."""
        answers = self.rows(
            "select ordinal, id, outcome from posthouse.enqueue_many(%s::jsonb) order by ordinal",
            json.dumps(jobs, default=str),
        )
        assert [answer.ordinal for answer in answers] == list(range(1, len(jobs) + 1))
        return [(answer.id, answer.outcome) for answer in answers]

    def enqueue(self, kind="task", **fields):
        [(job_id, _)] = self.enqueue_many({"kind": kind, **fields})
        return job_id

    # A worker's part.

    def claim(
        self, limit=1, *, kinds=("task",), queues=("default",), lease=60, lane_cursors=None,
        allow_suspect=True, worker=None, token=None, capabilities=(), tenant_usage=None,
        preference_wait=20, min_jobs=0,
    ):  # fmt: skip
        lane_cursors, tenant_usage = lane_cursors or {}, tenant_usage or {}
        rows = self.rows(
            "select * from posthouse.claim("
            "%s, %s, %s, %s, %s, make_interval(secs => %s), %s::bigint[], %s::bigint[], %s, %s::text[], "
            "%s::text[], %s::double precision[], make_interval(secs => %s), %s)",
            worker or self.worker, token or uuid4(), list(queues), list(kinds), limit, lease,
            list(lane_cursors), list(lane_cursors.values()), allow_suspect, list(capabilities),
            list(tenant_usage), list(tenant_usage.values()), preference_wait, min_jobs,
        )  # fmt: skip
        return sorted(rows, key=attrgetter("priority", "position"))  # a claim returns them in no order

    def limit(self, name="limit", **fields):
        self.value("select posthouse.set_limit(%s, %s::jsonb)", name, json.dumps(fields))

    def in_use(self):
        """What the limits count, those that count nothing left out."""
        rows = self.rows("select slot, in_use from posthouse.limit_slots where in_use <> 0")
        return {row.slot: row.in_use for row in rows}

    def claim_one(self, **options):
        [job] = self.claim(1, **options)
        return job

    def start(self, kind="task", **fields):
        """A job that is running: enqueued and claimed."""
        job_id = self.enqueue(kind, **fields)
        found = [job for job in self.claim(100, kinds=[kind]) if job.id == job_id]
        assert len(found) == 1
        return found[0]

    def succeed(self, *jobs, result=None, output=None):
        """The ids whose lease was lost."""
        return self.value(
            "select posthouse.succeed(%s, %s, %s::text[]::jsonb[], %s::text[]::jsonb[])",
            [job.id for job in jobs], [job.token for job in jobs],
            None if result is None else [json.dumps(result)] * len(jobs),
            None if output is None else [json.dumps(output)] * len(jobs),
        )  # fmt: skip

    def succeed_with(self, job, followups, result=None):
        return self.value(
            "select posthouse.succeed_with(%s, %s, %s::text[]::jsonb[], %s::text[]::jsonb[])",
            [job.id], [job.token], [json.dumps(result)], [json.dumps(followups, default=str)],
        )  # fmt: skip

    def settle(self, job, event, outcome="failed", delay=None, error=None, *, output=None):
        return self.settle_many([job], event, outcome, delay, error, output=output)

    def settle_many(self, jobs, event, outcome="failed", delay=None, error=None, *, output=None):
        n = len(jobs)
        return self.value(
            "select posthouse.settle(%s, %s, %s, %s, %s::double precision[], %s::text[]::jsonb[], "
            "%s::text[]::jsonb[])",
            [job.id for job in jobs], [job.token for job in jobs], [event] * n, [outcome] * n, [delay] * n,
            [None if error is None else json.dumps(error)] * n,
            None if output is None else [json.dumps(output)] * n,
        )  # fmt: skip

    def fail(self, job, message="broken"):
        return self.settle(job, "fail", "failed", error={"type": "ValueError", "message": message})

    def retry(self, job, delay=0.0, message="again"):
        return self.settle(job, "retry", "failed", delay, {"type": "ValueError", "message": message})

    def heartbeat(self, *jobs, lease=60, worker=None):
        answers = self.rows(
            "select id, verdict from posthouse.heartbeat(%s, %s, %s, make_interval(secs => %s))",
            worker or self.worker, [job.id for job in jobs], [job.token for job in jobs], lease,
        )  # fmt: skip
        return {answer.id: answer.verdict for answer in answers}

    def progress(self, job, percent=None, step=None, message=None, lease=60):
        said = {"percent": percent, "step": step, "message": message}
        return not self.rows(
            "select * from posthouse.report(%s, make_interval(secs => %s))",
            json.dumps([{"id": str(job.id), "token": str(job.token), **said}]), lease,
        )  # fmt: skip

    def register(self, worker=None, *, capabilities=(), concurrency=10, key=None, offline_after=300):
        """Registers a worker; one with a key is remote."""
        worker = worker or self.worker
        self.value(
            "select posthouse.register(%s, 'w', 'host', 1, '1', '{default}', '{task}', %s, '{}', '{}', %s, "
            "%s, p_offline_after => make_interval(secs => %s))",
            worker, concurrency, list(capabilities), key, offline_after,
        )  # fmt: skip
        return worker

    def server_beat(self, server):
        self.value("select posthouse.server_beat(%s, 'host', 1)", server)

    # The keeper's part.

    def promote(self, limit=1000):
        return self.value("select posthouse.promote(%s)", limit)

    def rescue(self, dead=(), crash_limit=3, grace=0, limit=1000):
        for worker in dead:
            self.value("select posthouse.sign_off(%s)", worker)
            self.rows("update posthouse.workers set lost_at = stopped_at where id = %s returning id", worker)
        answers = self.rows(
            "select id, event from posthouse.rescue(%s, make_interval(secs => %s), %s)",
            crash_limit,
            grace,
            limit,
        )
        return {answer.id: answer.event for answer in answers}

    def mark_lost_workers(self, patience=0, grace=0, silence=None):
        found = self.rows(
            "select posthouse.mark_lost_workers("
            "make_interval(secs => %s), make_interval(secs => %s), make_interval(secs => %s))",
            grace,
            patience,
            silence,
        )
        return [row[0] for row in found]

    def run_retention(self, before=None, **days):
        """Retention, with a real round of it; returns the partitions that went. ``before``: of all things."""
        if before is not None:
            days["default"] = (self.value("select posthouse.now()") - before).total_seconds() / 86400
        there = self._partitions()
        self.let_go_counts = asyncio.run(self._retain(days))
        return there - self._partitions()

    async def _retain(self, days):
        connection = ReconnectingConnection(self.url, "tests")
        try:
            return await RetentionRun(connection, days).run()
        finally:
            await connection.close()

    def _partitions(self):
        return {row[0] for row in self.rows("select partition from posthouse.partitions()")}

    # A person's part.

    def cancel(self, job_id, tenant=None):
        return self.value("select posthouse.cancel(%s, %s, 'tester')", job_id, tenant)

    def reopen(self, job_id, tenant=None):
        return self.value("select posthouse.reopen(%s, %s, 'tester')", job_id, tenant)

    # Looking.

    def job(self, job_id):
        return self.row("select * from posthouse.jobs where id = %s", job_id)

    def status(self, job_id):
        found = self.rows("select status from posthouse.jobs where id = %s", job_id)
        assert len(found) <= 1, f"{job_id} is in {len(found)} places"
        return found[0].status if found else None

    def table_of(self, job_id):
        return self.value("select job_table from posthouse.jobs where id = %s", job_id)

    def attempts(self, job_id):
        return self.rows(
            "select * from posthouse.attempts where job_id = %s order by generation, started_at, attempt",
            job_id,
        )

    def count(self, table):
        return self.value(f"select count(*) from posthouse.{table}")

    def dump_tables(self):
        """All rows of all places: to see that nothing changed."""
        found = {}
        for table in ("ready", "waiting", "running", "history", "past_attempts", "dedupe_keys",
                      "job_dependencies", "order_tails", "payloads"):  # fmt: skip
            with self.connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(f"select * from posthouse.{table}").fetchall()
            found[table] = sorted(rows, key=str)
        return found

    def advance(self, seconds):
        """Move the clock of the database to this much from the true time, and the base on top."""
        self.connection.execute(
            "create or replace function posthouse.now() returns timestamptz "
            "language sql volatile parallel safe "
            f"as $$ select clock_timestamp() + make_interval(secs => {float(self.base + seconds)}) $$"
        )

    def pin_clock_within_minute(self, second=10):
        """From here on the clock starts at this second of a minute, so that a test stays within it."""
        self.base = second - self.value("select date_part('epoch', now())::float8") % 60
        self.advance(0)

    def run_all(self, **options):
        """Claim and finish, one at a time, until nothing is ready; returns the ids in the order they ran."""
        order = []
        while jobs := self.claim(1, **options):
            order.append(jobs[0].id)
            assert self.succeed(jobs[0]) == []
        return order


def run_concurrently(*works):
    """Runs these in threads at the same time; returns what they returned, raises what they raised."""
    answers = [None] * len(works)
    errors = []

    def run(index, work):
        try:
            answers[index] = work()
        except BaseException as error:  # noqa: BLE001 - told to the test below
            errors.append(error)

    threads = [Thread(target=run, args=item, daemon=True) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "still running after 60 s"
    if errors:
        raise errors[0]
    return answers


def run_random_mix(engine, *parts, rounds=60):
    """As many threads as parts, each doing one after the other as chance has it; what they count, summed up.

    Rounds, not seconds: a slow machine does as much as a quick one.
    """

    def run(seed):
        rng = random.Random(seed)
        counts = Counter()
        with engine.new_connection() as own:
            # A wait this long is a deadlock that Postgres does not see, or a lock that is held too long.
            own.connection.execute("set lock_timeout = '20s'")
            for _ in range(rounds):
                counts.update(rng.choice(parts)(own, rng))
        return counts

    return sum(run_concurrently(*[partial(run, seed) for seed in range(len(parts))]), Counter())


def has_lock_waiter(engine):
    """Whether a session of this database waits for a lock."""
    return engine.value(
        "select exists (select from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock')"
    )


_TABLES = (
    "ready", "waiting", "running", "history", "past_attempts", "payloads", "lanes", "dedupe_keys",
    "job_dependencies", "order_tails", "workers", "definitions", "audit", "limits", "limit_slots", "queues",
    "tenants", "samples", "sampled_minutes", "failure_deltas", "failure_groups", "failure_counts",
    "bulk_changes", "worker_changes", "purged_tenants", "detached_partitions",
)  # fmt: skip

_WRITTEN = "coalesce(pg_partition_root(oid), oid::regclass) = any (%s::regclass[])"


def reset_database(connection):
    """As after migrating. DELETE, because truncating a dozen tables and their partitions takes longer."""
    clear_written(connection, _WRITTEN, [f"posthouse.{table}" for table in _TABLES])
    connection.execute("drop table if exists orders cascade; drop function if exists on_order")
    Engine(connection, "").advance(0)
