"""Samples: what each minute brought, counted once by any number of keepers, as brute force finds it."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from posthouse import insights, testing
from posthouse.errors import ConfigurationError
from posthouse.insights.stats import PRECISION, middle
from posthouse.keeper.keeper import Keeper
from support.engine import run_concurrently
from support.waiting import eventually_sync

MINUTE = timedelta(minutes=1)
FILL = """
insert into posthouse.history (
  id, queued_at, scheduled_for, started_at, attempt_started_at, finished_at, status, outcome, tenant_id,
  queue, kind, priority, max_attempts, generation, crashes, snoozes, attempt_count, source, payload, position)
values (
  gen_random_uuid(), %(ready)s, %(ready)s, %(started)s, %(started)s, %(finished)s, %(status)s, %(outcome)s,
  %(tenant)s, %(queue)s, %(kind)s, 100, 3, 1, 0, 0, 1, 'manual', '{}', %(number)s)
"""
COUNTS = "arrivals, ended, succeeded, failed + dead_letter as unsuccessful, failures"


@pytest.fixture
def engine(engine):
    engine.pin_clock_within_minute()
    return engine


def last_minute(engine):
    return engine.value("select posthouse.minute_of(posthouse.now()) - interval '1 minute'")


def sample(engine):
    return engine.value("select posthouse.sample_due_minutes(p_lag => '0 s')")


def history(minute, count, seed=7):
    """Ended jobs of two minutes, in two queues of two tenants."""
    rng = random.Random(seed)
    for number in range(count):
        finished = minute + timedelta(seconds=rng.uniform(0, 120))
        started = finished - timedelta(seconds=rng.lognormvariate(-1, 2))
        status = rng.choice(["succeeded"] * 8 + ["dead_letter", "canceled"])
        yield {
            "finished": finished,
            "started": started,
            "ready": started - timedelta(seconds=rng.lognormvariate(0, 2)),
            "status": status,
            "outcome": "failed" if status == "dead_letter" else status,
            "tenant": rng.choice(["acme", "default"]),
            "queue": rng.choice(["mail", "default"]),
            "kind": rng.choice(["one", "two"]),
            "number": number,
        }


def fill(engine, jobs):
    with engine.connection.cursor() as cursor:
        cursor.executemany(FILL, jobs)


def brute(values, share):
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 100) * len(ordered) // 100) - 1)]


def test_counts_and_percentiles_are_those_of_a_brute_force_look(engine):
    minute = last_minute(engine)
    jobs = list(history(minute - MINUTE, 3000))
    fill(engine, jobs)
    engine.value("select posthouse.sample(%s, %s)", minute - MINUTE, minute + MINUTE)
    for start in (minute - MINUTE, minute):
        for tenant in ("acme", "default"):
            _compare(engine, start, tenant, jobs)


def _compare(engine, start, tenant, jobs):
    row = engine.row(
        "select * from posthouse.samples "
        "where minute = %s and tenant_id = %s and queue = 'mail' and kind = 'two'",
        start, tenant,
    )  # fmt: skip
    own = [job for job in jobs if (job["tenant"], job["queue"], job["kind"]) == (tenant, "mail", "two")]
    ended = [job for job in own if start <= job["finished"] < start + MINUTE]
    assert row.ended == len(ended)
    assert row.arrivals == sum(start <= job["ready"] < start + MINUTE for job in own)
    assert row.succeeded == sum(job["status"] == "succeeded" for job in ended)
    assert row.dead_letter == row.failures == sum(job["status"] == "dead_letter" for job in ended)
    waits = [(job["started"] - job["ready"]).total_seconds() for job in ended]
    runs = [(job["finished"] - job["started"]).total_seconds() for job in ended]
    for buckets, counts, times in (
        (row.wait_buckets, row.wait_counts, waits),
        (row.run_buckets, row.run_counts, runs),
    ):
        found = sorted(m for bucket, n in zip(buckets, counts, strict=True) for m in [middle(bucket)] * n)
        assert len(found) == len(times)
        for share in (0.5, 0.95):
            assert brute(found, share) == pytest.approx(brute(times, share), rel=PRECISION + 1e-4, abs=1e-4)


async def test_what_is_put_together_has_the_percentiles_of_all_times(engine):
    minute = last_minute(engine)
    jobs = list(history(minute - MINUTE, 2000, seed=3))
    fill(engine, jobs)
    engine.value("select posthouse.sample(%s, %s)", minute - MINUTE, minute + MINUTE)
    async with await psycopg.AsyncConnection.connect(engine.url, autocommit=True) as own:
        [line] = await insights.series(own, span=120, until=minute + MINUTE, by=[])
        split = await insights.series(own, span=120, until=minute + MINUTE, by=["tenant", "kind"])
    runs = [(job["finished"] - job["started"]).total_seconds() for job in jobs]
    assert line.total.run_p50 == pytest.approx(brute(runs, 0.5), rel=PRECISION + 1e-4)
    assert line.total.run_p95 == pytest.approx(brute(runs, 0.95), rel=PRECISION + 1e-4)
    assert line.total.ended == 2000 == sum(part.total.ended for part in split)
    assert {(part.tenant, part.queue, part.kind) for part in split} == {
        (tenant, None, kind) for tenant in ("acme", "default") for kind in ("one", "two")
    }


def test_a_sql_bucket_holds_what_the_middle_of_it_stands_for(engine):
    for seconds in (0.00005, 0.0002, 0.0011, 0.5, 1, 59, 3600, 86400):
        number = engine.value("select posthouse.bucket(%s)", seconds)
        assert middle(number) == pytest.approx(max(seconds, 0.0001), rel=PRECISION + 1e-9)


def test_times_of_every_tenth_job_stand_for_all(engine):
    minute = last_minute(engine)
    fill(engine, list(history(minute, 1000)))
    engine.value("select posthouse.sample(%s, %s, true, 100, 100, 10)", minute, minute + 2 * MINUTE)
    row = engine.row(
        "select sum(ended) as ended, sum(n) as times from posthouse.samples "
        "cross join lateral (select sum(u) as n from unnest(run_counts) as u) as t"
    )
    assert (row.ended, row.times) == (1000, 1000)


def test_arrivals_are_counted_wherever_the_jobs_are(engine):
    engine.start()
    engine.succeed(engine.start())
    engine.fail(engine.start())
    engine.cancel(engine.enqueue())
    engine.enqueue(delay=3600)
    engine.enqueue()
    engine.advance(60)
    assert sample(engine) == 1
    row = engine.row(f"select {COUNTS}, ready, waiting, running from posthouse.samples")
    assert row == (6, 3, 1, 1, 1, 1, 1, 1)


def test_attempts_that_failed_and_were_retried_count_as_failures(engine):
    engine.retry(engine.start(), delay=600)
    engine.settle(engine.start(), "release", "released", 600.0)
    engine.advance(60)
    sample(engine)
    row = engine.row("select failures, ended, run_counts, wait_counts from posthouse.samples")
    assert row == (1, 0, [1], [1])


def test_a_job_that_waited_for_another_has_no_wait(engine):
    """It is not on record when the other one ended."""
    first = engine.start()
    engine.enqueue(depends_on=[first.id])
    engine.succeed(first)
    engine.succeed(engine.claim_one())
    engine.advance(60)
    sample(engine)
    assert engine.row("select ended, wait_counts, run_counts from posthouse.samples").wait_counts == [1]


def test_the_age_of_the_oldest_is_that_of_the_one_that_could_start_first(engine):
    engine.enqueue()
    engine.enqueue(delay=30)
    engine.advance(120)
    engine.promote()
    sample(engine)
    row = engine.row("select ready, oldest_seconds from posthouse.samples where ready is not null")
    assert row.ready == 2
    assert 119 < row.oldest_seconds < 150


def test_a_minute_is_sampled_once_by_many_keepers(engine):
    for _ in range(50):
        engine.succeed(engine.start())
    engine.advance(60)
    with engine.new_connection() as one, engine.new_connection() as two, engine.new_connection() as three:
        done = run_concurrently(*(lambda each=each: sample(each) for each in (one, two, three)))
    assert sum(done) == 1
    assert engine.value("select sum(ended) from posthouse.samples") == 50
    assert sample(engine) == 0


def test_a_keeper_that_dies_while_sampling_leaves_it_to_the_next(engine):
    engine.succeed(engine.start())
    engine.advance(60)
    with engine.new_connection(autocommit=False) as dying:
        assert sample(dying) == 1
        assert sample(engine) == 0  # another keeper is sampling
    assert sample(engine) == 1
    assert engine.value("select sum(ended) from posthouse.samples") == 1


def test_what_is_committed_late_is_found_by_a_second_look(engine):
    engine.pin_clock_within_minute(57)  # three seconds before its end
    job, late = engine.start(), engine.start()
    engine.succeed(job)
    with engine.new_connection(autocommit=False) as slow:
        slow.succeed(late)
        eventually_sync(lambda: last_minute(engine) > late.attempt_started_at - MINUTE)
        sample(engine)
        assert engine.row("select ended, arrivals from posthouse.samples") == (1, 2)
        assert engine.row("select sample_count, sealed from posthouse.sampled_minutes") == (1, False)
        slow.commit()
    engine.advance(60)
    assert sample(engine) == 2
    assert engine.rows("select ended, arrivals from posthouse.samples where ended > 0") == [(2, 2)]
    assert engine.rows("select sample_count, sealed from posthouse.sampled_minutes order by minute") == [
        (2, True),
        (1, True),
    ]
    engine.advance(120)
    assert sample(engine) == 1  # and by no third


def test_minutes_without_a_keeper_are_sampled_later_without_a_backlog(engine):
    engine.advance(-600)
    assert sample(engine) == 1
    engine.succeed(engine.start())
    engine.advance(-300)
    engine.enqueue()
    engine.advance(0)
    assert sample(engine) == 10
    rows = engine.rows("select arrivals, ended, ready from posthouse.samples order by minute")
    assert (sum(row.arrivals for row in rows), sum(row.ended for row in rows)) == (2, 1)
    assert [row.ready for row in rows if row.ready is not None] == [1]  # of the last minute


def test_a_long_backlog_is_estimated_from_some_of_its_pages(engine):
    engine.connection.execute("""
        insert into posthouse.ready (
          id, queued_at, scheduled_for, priority, max_attempts, tenant_id, kind, queue, payload, lane)
        select gen_random_uuid(), now() - interval '1 h', now(), 100, 3, 'default', 'k', 'default', '{}', 1
        from generate_series(1, 20000)""")
    engine.advance(60)
    engine.value("select posthouse.sample_due_minutes(p_lag => '0 s', p_pages => 100)")
    assert engine.value("select sum(ready) from posthouse.samples") == pytest.approx(20_000, rel=0.5)


def test_samples_are_read_without_walking_over_older_history(engine):
    """20,000 ended jobs of earlier hours: the block-range index leaves them out. In a partition of their own:
    such an index keeps the times of what other tests have deleted.
    """
    engine.connection.execute("""
        insert into posthouse.history (
          id, queued_at, scheduled_for, priority, max_attempts, generation, crashes, snoozes, attempt_count,
          tenant_id, kind, queue, source, payload, finished_at, status, outcome)
        select gen_random_uuid(), now(), now(), 100, 3, 1, 0, 0, 3, 'default', 'k', 'default', 'manual', '{}',
               date_trunc('day', now()) + interval '5 days' + n * interval '1 ms', 'succeeded', 'succeeded'
        from generate_series(1, 20000) as n""")
    engine.value("select posthouse.summarize_brin_indexes()::text")
    engine.connection.execute("set enable_seqscan = off")
    plan = engine.value("explain (analyze, format json) select count(*) from posthouse.history "
                        "where finished_at >= date_trunc('day', now()) + interval '5 days 1 h'")  # fmt: skip
    engine.connection.execute("reset enable_seqscan")
    assert "Bitmap" in str(plan)
    assert _removed(plan[0]["Plan"]) < 10_000  # whole ranges of blocks, of which one is half full


def _removed(node):
    own = node.get("Rows Removed by Index Recheck", 0) + node.get("Rows Removed by Filter", 0)
    return own + sum(_removed(child) for child in node.get("Plans", ()))


async def test_keepers_sample_for_months_each_minute_once(app, db, settings):
    keepers = [Keeper(settings.database_url, settings) for _ in range(3)]
    async with testing.clock(app) as clock:
        for _ in range(5):
            await clock.advance("1m")
            await asyncio.gather(*(keeper.sampler.run_once() for keeper in keepers))
    for keeper in keepers:
        await keeper.stop()
    minutes = [
        minute
        for (minute,) in db.execute("select minute from posthouse.sampled_minutes order by 1").fetchall()
    ]
    assert len(minutes) in {5, 6}
    assert all(after - before == MINUTE for before, after in pairwise(minutes))


async def _enter_a_minute(clock):
    """Move the clock away from the edges: a minute is sampled two seconds after its end, not before."""
    await clock.move_to((await clock.now()).replace(second=10))


async def test_samples_are_deleted_after_their_retention(app, db, settings, keeper):
    async with testing.clock(app) as clock:
        await _enter_a_minute(clock)
        db.execute("select posthouse.enqueue('work')")
        await clock.advance("1m")
        await keeper.sampler.run_once()
        await clock.advance("31d")
        later = Keeper(settings.database_url, settings)
        counts = await later.sampler.run_once()
        await later.stop()
    assert counts["deleted"] == 1
    assert db.execute("select count(*) from posthouse.samples where arrivals > 0").fetchone() == (0,)


async def test_a_series_has_a_point_for_each_step_and_says_what_is_left(app, db, keeper, connection):
    async with testing.clock(app) as clock:
        await _enter_a_minute(clock)
        db.execute("select posthouse.enqueue('work')")
        for _ in range(3):
            await clock.advance("1m")
            await keeper.sampler.run_once()
        [line] = await insights.series(connection, span=600)
        assert len(line.points) == 10
        assert line.total.arrivals == 1 == sum(point.arrivals for point in line.points)
        assert (line.total.ready, line.points[-1].ready) == (1, 1)
        assert line.points[0].ready is None  # no sample was taken then
        db.execute("select posthouse.cancel(id) from posthouse.jobs")
        await clock.advance("1m")
        await keeper.sampler.run_once()
        [line] = await insights.series(connection, span=600)
        assert (line.total.ready, line.total.oldest_seconds, line.total.ended) == (0, None, 1)


@pytest.mark.parametrize(
    ("span", "step"), [(3600, 60), (7200, 60), (7201, 300), (12 * 3600, 300), (86400, 3600)]
)
def test_long_ranges_have_longer_steps(span, step):
    assert insights.step_for(span) == step


async def test_steps_of_an_hour_add_up_their_minutes(engine):
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    engine.connection.execute(
        "insert into posthouse.samples (minute, tenant_id, queue, kind, arrivals, ready) "
        "select %s + n * interval '1 minute', 'default', 'default', 'k', 2, n from generate_series(0, 119) n",
        (noon,),
    )
    engine.connection.execute(
        "insert into posthouse.sampled_minutes select minute, 1, true, true, 0 from posthouse.samples"
    )
    async with await psycopg.AsyncConnection.connect(engine.url, autocommit=True) as own:
        [line] = await insights.series(own, span=86400, until=noon + timedelta(hours=2))
    assert [(point.arrivals, point.ready) for point in line.points[-2:]] == [(120, 59), (120, 119)]


async def test_what_cannot_be_shown_is_refused(connection):
    for wrong in ({"by": ["colour"]}, {"span": 1}, {"step": 90}):
        with pytest.raises(ConfigurationError):
            await insights.series(connection, **wrong)
