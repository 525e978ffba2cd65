"""How long each thing is kept, and what goes with a job."""

import asyncio

import pytest
from psycopg.errors import CheckViolation

from posthouse.keeper.retention import RetentionRun
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from support.engine import run_concurrently

LARGE = {"text": "x" * 5_000}


def write_log(engine, job):
    engine.value(
        "select posthouse.write_log(%s, %s, '{0}', '{log}', '{info}', '{hello}')", [job.id], [job.token]
    )


def test_each_thing_is_kept_as_long_as_its_setting_says():
    days = Settings(retention_days=20, logs_retention_days=3).kept_days()
    assert (days["default"], days["logs"], days["audit"]) == (20, 3, 365)
    assert "attempts" not in days, "0: as the default"


def test_logs_may_go_before_their_job_and_never_stay_behind_it(engine):
    job = engine.start()
    write_log(engine, job)
    engine.succeed(job)
    engine.on(5)
    engine.run_retention(default=30, logs=3)
    assert (engine.count("log_lines"), engine.status(job.id)) == (0, "succeeded")

    later = engine.start()
    write_log(engine, later)
    engine.succeed(later)
    engine.on(40)
    engine.run_retention(default=30, logs=900)
    assert (engine.count("log_lines"), engine.status(later.id)) == (0, None)


def test_what_hangs_on_a_job_goes_with_it_and_that_of_others_stays(engine):
    job = engine.start(payload=LARGE, dedupe_key="gone", on_duplicate="reuse", order_key="gone")
    engine.value("select posthouse.save_step(%s, %s, '1 minute', 'one', '1', 0)", job.id, job.token)
    engine.retry(job)
    engine.succeed(engine.claim_one())
    engine.on(20)
    engine.ended(payload=LARGE, dedupe_key="kept", on_duplicate="reuse", order_key="kept")
    engine.on(31)
    engine.run_retention(default=30)
    assert engine.there(job.id) == []
    for table in ("payloads", "dedupe_keys", "order_tails"):
        assert engine.count(table) == 1, table
    for table in ("steps", "past_attempts"):
        assert engine.count(table) == 0, table


def test_a_table_without_partitions_is_kept_by_one_line(engine):
    """What a migration says of a new table."""
    engine.connection.execute(
        "create table posthouse.things (at timestamptz not null, tenant_id text not null);"
        "insert into posthouse.retention_rules (relation, category, time_column, tenant_column) "
        "values ('things', 'things', 'at', 'tenant_id')"
    )
    engine.kept_days("brief", 2)
    engine.kept_days("long", 90)
    for tenant in ("default", "brief", "long"):
        engine.connection.execute("insert into posthouse.things values (posthouse.now(), %s)", (tenant,))
    engine.on(5)
    engine.run_retention(default=30)
    assert engine.rows("select tenant_id from posthouse.things order by 1") == [("default",), ("long",)]
    engine.run_retention(default=30, things=3)
    assert engine.count("things") == 0, "the days of the category are shorter than the tenant's"


def test_an_unlisted_partitioned_table_follows_the_general_retention(engine):
    engine.connection.execute(
        "create table posthouse.readings (taken_at timestamptz not null, value integer) "
        "partition by range (taken_at);"
        "create table posthouse.readings_default partition of posthouse.readings default;"
        "select posthouse.create_partitions();"
        "insert into posthouse.readings values (posthouse.now(), 1)"
    )
    engine.on(31)
    engine.connection.execute("insert into posthouse.readings values (posthouse.now(), 2)")
    engine.run_retention(default=30)
    assert engine.rows("select value from posthouse.readings") == [(2,)]


def test_rows_that_found_no_partition_go_too_when_their_time_is_over(engine):
    engine.advance(100 * 86400)
    job = engine.failed(payload=LARGE)
    hopeless = engine.enqueue(depends_on=[job], on_dependency_failure="wait")
    assert engine.value("select tableoid::regclass::text from posthouse.history").endswith("history_default")
    engine.on(120)
    engine.run_retention(default=30)
    assert engine.there(job) == [job]
    engine.on(131)
    engine.run_retention(default=30)
    assert engine.there(job) == []
    assert engine.count("payloads") == 0
    assert engine.status(hopeless) == "canceled"


def test_a_round_that_died_between_two_steps_is_finished_by_the_next(engine):
    """The partition is detached, and its jobs are gone for all readers; dependent rows are not."""
    job = engine.ended(payload=LARGE, dedupe_key="k", on_duplicate="reuse")
    engine.on(40)
    part = engine.value(
        "select partition from posthouse.partitions() where relation = 'history' order by 1 limit 1"
    )
    assert engine.value("select posthouse.detach_partition(%s)", part)
    assert engine.there(job) == []
    assert engine.count("payloads") == 1
    assert engine.plan(default=30)[0] == ("finish", "history")
    engine.run_retention(default=30)
    assert [engine.count(table) for table in ("payloads", "dedupe_keys", "detached_partitions")] == [0, 0, 0]
    assert engine.plan(default=30) == []


def test_concurrent_keepers_delete_once(engine):
    for _ in range(20):
        engine.ended(payload=LARGE)
    engine.kept_days("acme", 90)
    engine.ended("acme", payload=LARGE)
    engine.on(40)

    async def run():
        connection = ReconnectingConnection(engine.url, "tests")
        try:
            return await RetentionRun(connection, {"default": 30}).run()
        finally:
            await connection.close()

    counts = run_concurrently(*[lambda: asyncio.run(run())] * 3)
    assert sum(count["shrunk"] for count in counts) >= 1
    engine.run_retention(default=30)
    assert [engine.count(table) for table in ("history", "payloads", "detached_partitions")] == [1, 1, 0]


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_jobs_are_cleared_page_by_page(engine, size):
    """However many pages a step takes, all of it is cleared and nothing twice."""
    for number in range(60):
        engine.enqueue(
            payload={"n": number}, subject="x" * 1000, dedupe_key=f"k{number}", on_duplicate="reuse"
        )
    engine.succeed(*engine.claim(100))
    engine.on(40)
    part = engine.value(
        "select partition from posthouse.partitions() where relation = 'history' order by 1 limit 1"
    )
    engine.value("select posthouse.detach_partition(%s)", part)
    page, steps = 0, 0
    while page is not None:
        before = engine.count("dedupe_keys")
        page = engine.value(
            "select posthouse.delete_detached_job_data(%s, %s, %s)", f"{part}_detached", page, size
        )
        steps += engine.count("dedupe_keys") < before  # pages of earlier tests may be empty
    assert engine.count("dedupe_keys") == 0
    assert steps > 1


def test_the_days_of_a_tenant_are_a_day_or_more(engine):
    with pytest.raises(CheckViolation):
        engine.kept_days("acme", 0)
