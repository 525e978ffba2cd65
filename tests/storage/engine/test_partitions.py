"""History by the day: partitions are made ahead, and dropped with what hangs on their jobs."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from support.engine import HOUR

DAY = 24 * HOUR
LARGE = {"text": "x" * 5_000}


def partitions(engine, table="history"):
    rows = engine.rows(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = %s::regclass order by 1",
        f"posthouse.{table}",
    )
    return [row.relname.removeprefix(f"{table}_") for row in rows]


def make(engine, days=2):
    return engine.value("select posthouse.create_partitions(%s)", days)


def drop(engine, before):
    return engine.run_retention(before)


def partition_of(engine, job_id):
    return engine.value(
        "select c.relname from posthouse.history h join pg_class c on c.oid = h.tableoid where h.id = %s",
        job_id,
    )


def today(shift=0):
    return f"{datetime.now(UTC) + timedelta(days=shift):%Y%m%d}"


@pytest.fixture
def engine(own_engine):
    """These change the schema: each has a database of its own."""
    return own_engine


@pytest.mark.parametrize("table", ["history", "log_lines", "past_attempts"])
def test_partitions_of_three_days_are_there_from_the_start(engine, table):
    made = partitions(engine, table)
    assert "default" in made
    assert len(made) >= 4
    assert today(2) in made


def test_partitions_are_made_as_time_goes_on_and_once(engine):
    assert make(engine) == 0
    before = len(partitions(engine))
    engine.advance(3 * DAY)
    assert make(engine) >= 9
    assert make(engine) == 0
    assert len(partitions(engine)) == before + 3
    assert today(5) in partitions(engine)


def test_an_ended_job_goes_to_the_partition_of_its_day(engine):
    job = engine.start()
    engine.succeed(job)
    assert partition_of(engine, job.id) == f"history_{today()}"


def test_a_day_without_a_partition_is_caught_by_the_default_one(engine):
    engine.advance(100 * DAY)
    job = engine.start()
    assert engine.succeed(job) == []
    retried = engine.start()
    assert engine.retry(retried) == []
    assert partition_of(engine, job.id) == "history_default"
    assert engine.status(job.id) == "succeeded"


def test_days_whose_rows_are_in_the_default_partition_are_left_to_it_and_the_others_are_made(engine):
    engine.advance(100 * DAY)
    engine.succeed(engine.start())
    before = {table: len(partitions(engine, table)) for table in ("history", "past_attempts", "log_lines")}
    make(engine)
    made = {table: len(partitions(engine, table)) - before[table] for table in before}
    assert made == {"history": 2, "past_attempts": 3, "log_lines": 3}
    assert today(101) in partitions(engine)
    assert today(100) not in partitions(engine)


def test_old_partitions_are_dropped_and_young_ones_kept(engine):
    old = engine.start()
    engine.retry(old)
    engine.succeed(engine.claim_one())
    engine.advance(3 * DAY)
    young = engine.start()
    engine.succeed(young)
    dropped = drop(engine, datetime.now(UTC) + timedelta(days=2))
    assert f"history_{today()}" in dropped
    assert f"past_attempts_{today()}" in dropped
    assert (engine.status(old.id), engine.status(young.id)) == (None, "succeeded")
    assert engine.attempts(old.id) == []
    assert today(2) in partitions(engine)


def test_a_partition_is_kept_until_its_whole_day_is_old_enough(engine):
    engine.succeed(engine.start())
    end_of_day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert drop(engine, end_of_day - timedelta(seconds=1)) == set()
    assert f"history_{today()}" in drop(engine, end_of_day)


def test_what_hangs_on_dropped_jobs_goes_with_them_and_nothing_else_does(engine):
    gone = engine.start(payload=LARGE, dedupe_key="gone", on_duplicate="reuse", order_key="gone")
    engine.succeed(gone)
    kept = engine.enqueue(payload=LARGE, dedupe_key="kept", order_key="kept")
    drop(engine, datetime.now(UTC) + timedelta(days=1))
    assert engine.rows("select job_id from posthouse.payloads") == [(kept,)]
    assert engine.rows("select dedupe_key from posthouse.dedupe_keys") == [("kept",)]
    assert engine.rows("select order_key from posthouse.order_tails") == [("kept",)]
    assert engine.job(kept).payload == LARGE


def test_a_job_that_was_reopened_is_not_dropped_with_its_first_day(engine):
    job = engine.start(payload=LARGE)
    engine.fail(job)
    engine.reopen(job.id)
    drop(engine, datetime.now(UTC) + timedelta(days=1))
    assert (engine.status(job.id), engine.job(job.id).payload) == ("queued", LARGE)


def test_finishing_goes_on_while_a_partition_cannot_be_dropped(engine):
    """A reader of the old day keeps the dropper off, and the next round does it."""
    engine.succeed(engine.start())
    engine.advance(DAY)
    job = engine.start()
    with engine.new_connection(autocommit=False) as reader:
        reader.rows(f"select * from posthouse.history_{today()}")
        assert f"history_{today()}" not in drop(engine, datetime.now(UTC) + timedelta(days=1))
        assert engine.succeed(job) == []
    assert f"history_{today()}" in drop(engine, datetime.now(UTC) + timedelta(days=1))


def test_tidying_forgets_workers_long_gone_and_windows_that_have_passed(engine):
    gone, alive = engine.register(uuid4()), engine.register(uuid4())
    engine.connection.execute("select posthouse.sign_off(%s)", (gone,))
    engine.succeed(engine.start(dedupe_key="passed", dedupe_window=60))
    engine.succeed(engine.start(dedupe_key="open", dedupe_window=100 * DAY))
    engine.enqueue(dedupe_key="held", dedupe_window=60)
    engine.advance(40 * DAY)
    engine.value("select posthouse.delete_stale_rows(posthouse.now() - interval '30 days')")
    assert engine.rows("select id from posthouse.workers") == [(alive,)]
    assert engine.rows("select dedupe_key from posthouse.dedupe_keys order by 1") == [("held",), ("open",)]


def test_a_job_that_waits_for_one_that_failed_and_is_dropped_is_canceled(engine):
    """The dependency can no longer be retried: the wait would never end."""
    failed, kept = engine.start(), engine.start()
    hopeless = engine.enqueue(depends_on=[failed.id], on_dependency_failure="wait")
    hopeful = engine.enqueue(depends_on=[kept.id], on_dependency_failure="wait")
    engine.fail(failed)
    engine.advance(3 * DAY)
    drop(engine, datetime.now(UTC) + timedelta(days=1))
    assert (engine.status(hopeless), engine.status(hopeful)) == ("canceled", "queued")
    assert "not kept any longer" in engine.job(hopeless).error["message"]
