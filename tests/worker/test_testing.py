"""The public testing module."""

from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.errors import InvalidPayload, WaitTimeout
from support.workers import running_worker


async def test_run_calls_a_handler_with_typed_arguments_and_no_database():
    app = posthouse.App("postgresql://nowhere.invalid/none")

    @app.job()
    async def double(value: int) -> int:
        return 2 * value

    @app.job()
    def triple(job: posthouse.Job, value: int) -> tuple[str, int, int]:
        return job.kind, job.attempt, 3 * value

    assert await testing.run(double, value="4") == 8
    assert await testing.run(triple, value=4, attempt=2) == ("triple", 2, 12)


async def test_run_raises_what_the_handler_raises():
    app = posthouse.App("postgresql://nowhere.invalid/none")

    @app.job()
    async def fall():
        raise KeyError("x")

    with pytest.raises(KeyError):
        await testing.run(fall)


async def test_run_refuses_arguments_that_an_enqueue_would_refuse():
    app = posthouse.App("postgresql://nowhere.invalid/none")

    @app.job()
    async def take(value: int):
        pass

    with pytest.raises(InvalidPayload):
        await testing.run(take, value="four")


async def test_run_takes_progress_and_follow_ups_and_refuses_a_commit():
    app = posthouse.App("postgresql://nowhere.invalid/none")

    @app.job()
    async def work(job: posthouse.Job):
        await job.progress(50)
        return job.enqueue("other")

    @app.job()
    async def pay(job: posthouse.Job):
        async with job.commit():
            pass

    assert await testing.run(work) is not None
    with pytest.raises(RuntimeError, match=r"use testing\.drain"):
        await testing.run(pay)


async def test_run_gives_a_batch_handler_a_batch_of_one():
    app = posthouse.App("postgresql://nowhere.invalid/none")

    @app.job(batch=10)
    async def work(jobs: list[posthouse.Job]):
        return [job.payload["number"] + 1 for job in jobs]

    assert await testing.run(work, number=4) == 5


async def test_drain_runs_retries_and_follow_ups_that_can_run_now(app):
    @app.job(retry=posthouse.Retry(0))
    async def first(job: posthouse.Job):
        if job.attempt == 1:
            raise ValueError
        job.enqueue(second)

    @app.job()
    async def second():
        pass

    await first.enqueue()
    assert await testing.drain(app) == {"succeeded": 2}
    assert await testing.drain(app) == {}


async def test_drain_can_be_limited_to_queues(app):
    @app.job(queue="a")
    async def work():
        pass

    await work.enqueue()
    await work.using(queue="b").enqueue()
    assert await testing.drain(app, queues=("a",)) == {"succeeded": 1}


async def test_drain_leaves_jobs_that_the_app_has_no_handler_for(app):
    @app.job()
    async def work():
        pass

    await work.enqueue()
    await app.client.enqueue("of another service", {})
    assert await testing.drain(app) == {"succeeded": 1}


async def test_drain_gives_up_after_its_timeout_and_the_job_goes_back(app, db):
    import asyncio  # noqa: PLC0415

    @app.job()
    async def forever():
        await asyncio.sleep(3600)

    await forever.enqueue()
    with pytest.raises(WaitTimeout):
        await testing.drain(app, timeout="300ms")
    (job,) = await testing.enqueued(app)
    assert (job["kind"], job["attempt_count"]) == ("forever", 0)


async def test_enqueued_shows_what_waits_oldest_first(app):
    @app.job()
    async def work(number: int):
        pass

    for number in range(3):
        await work.enqueue(number=number)
    await work.using(delay="1h").enqueue(number=3)
    await app.client.enqueue("other", {})
    assert [job["payload"]["number"] for job in await testing.enqueued(app, "work")] == [0, 1, 2, 3]
    assert len(await testing.enqueued(app)) == 5


async def test_assert_enqueued_finds_by_payload_and_columns(app):
    handle = await app.client.enqueue("mail", {"to": "Ada", "about": "x"}, queue="out", priority="high")
    assert await testing.assert_enqueued(app, "mail") == handle.id
    assert await testing.assert_enqueued(app, "mail", {"to": "Ada"}, queue="out", priority=50) == handle.id
    with pytest.raises(AssertionError, match=r"no queued mail job matches .*Bob"):
        await testing.assert_enqueued(app, "mail", {"to": "Bob"})
    with pytest.raises(AssertionError, match="queue"):
        await testing.assert_enqueued(app, "mail", queue="in")
    with pytest.raises(AssertionError, match="queued payloads: none"):
        await testing.assert_enqueued(app, "letter")


async def test_the_clock_moves_for_the_database_and_is_put_right_again(app, db):
    def skew():
        ask = "select extract(epoch from posthouse.now() - clock_timestamp())"
        return round(db.execute(ask).fetchone()[0])

    async with testing.clock(app) as clock:
        await clock.advance("1h")
        assert skew() == 3600
        await clock.advance("30m")
        assert skew() == 5400
        assert (await clock.now()).tzinfo is not None
    assert skew() == 0


async def test_the_clock_is_put_right_when_the_test_fails(app, db):
    async def fail():
        async with testing.clock(app) as clock:
            await clock.advance("1d")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert db.execute("select posthouse.now() - clock_timestamp() < interval '1 s'").fetchone() == (True,)


async def test_a_moved_clock_keeps_its_nature(app, db):
    """Volatility decides how Postgres plans with it: a test must see the plans of production."""
    ask = "select provolatile, proparallel from pg_proc where oid = 'posthouse.now'::regproc"
    before = db.execute(ask).fetchone()
    async with testing.clock(app) as clock:
        await clock.advance("1h")
        assert db.execute(ask).fetchone() == before
    assert db.execute(ask).fetchone() == before


async def test_a_clock_moved_under_a_running_worker_makes_later_jobs_due(app, db):
    @app.job()
    async def work():
        return "done"

    handle = await work.using(delay="2d").enqueue()
    async with running_worker(app), testing.clock(app) as clock:
        await clock.advance("2d1s")
        assert await handle.wait("20s") == "done"


def test_each_database_is_fresh_and_gone_afterwards(server):
    with testing.database(server) as first, testing.database(server) as second:
        assert first != second
        with psycopg.connect(first) as connection:
            connection.execute("select posthouse.enqueue('work')")
        with psycopg.connect(second) as connection:
            assert connection.execute("select count(*) from posthouse.jobs").fetchone() == (0,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)


def test_each_day_has_a_template_of_its_own_with_the_partitions_of_the_days_ahead(server, monkeypatch):
    prefix, migrated = f"posthouse_template_{uuid4().hex[:8]}_", []
    monkeypatch.setattr(testing, "TEMPLATE_PREFIX", prefix)
    monkeypatch.setattr(testing, "migrate", lambda connection: migrated.append(connection.info.dbname))

    def templates():
        with psycopg.connect(server) as connection:
            return connection.execute(
                "select array_agg(datname) from pg_database where starts_with(datname, %s)", (prefix,)
            ).fetchone()[0]

    with monkeypatch.context() as earlier:
        earlier.setattr(testing, "_template_of_today", lambda: f"{prefix}20000101")
        with testing.database(server):
            assert templates() == [f"{prefix}20000101"]
    with testing.database(server):
        assert templates() == [f"{prefix}{datetime.now(UTC):%Y%m%d}"]
    assert migrated == [f"{prefix}20000101", *templates()], "which makes the partitions of the days ahead"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database {templates()[0]}")
