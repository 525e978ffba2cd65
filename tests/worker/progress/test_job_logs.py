"""The live log: lines of a job while it runs, bounded, and never a harm to it."""

import asyncio
import dataclasses
import logging
from uuid import uuid4

import psycopg
import pytest

import posthouse
from posthouse import insights, testing
from posthouse.errors import JobNotFound
from posthouse.keeper.retention import RetentionRun
from posthouse.storage.connections import ReconnectingConnection
from posthouse.worker.log_writer import BURST_BYTES, LINE_LIMIT, BufferedLine, LogBuffer
from support.waiting import WAIT_SECONDS, eventually
from support.workers import (
    claim_as_other_worker,
    expire_lease_and_rescue,
    job_status,
    running_worker,
    wait_for_startup_heartbeats,
)

MEGABYTE = 1_048_576


@pytest.mark.parametrize("in_thread", [False, True])
async def test_lines_are_there_while_the_job_runs_and_in_order(app, lines, in_thread):
    go = asyncio.Event()
    loop = asyncio.get_running_loop()

    def put_out(job):
        job.log.info("frame %d of %d", 1, 9)
        job.log.debug("too much")
        job.log.warning("slow")
        job.emit_output("stdout", "one\ntw")
        job.emit_output("stderr", "trouble\n")
        job.emit_output("stdout", "o\nrest")

    async def talk_async(job: posthouse.Job):
        put_out(job)
        await go.wait()

    def talk_thread(job: posthouse.Job):
        put_out(job)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()

    handle = await app.job("talk")(talk_thread if in_thread else talk_async).enqueue()
    first = [
        ("log", "info", "frame 1 of 9"), ("log", "warning", "slow"), ("stdout", None, "one"),
        ("stderr", None, "trouble"), ("stdout", None, "two"),
    ]  # fmt: skip
    async with running_worker(app):
        await eventually(lambda: lines(handle.id) == first)
        go.set()
        await handle.wait("20s")
    assert lines(handle.id) == [*first, ("stdout", None, "rest")]


async def test_a_log_line_says_when_and_in_which_attempt_it_came(app, db, database):
    @app.job(retry=posthouse.Retry(0, 0, 0, 0))
    async def talk(job: posthouse.Job):
        job.log.info("attempt %d", job.attempt)
        if job.attempt == 1:
            raise ValueError

    before = db.execute("select posthouse.now()").fetchone()[0]
    handle = await talk.enqueue()
    await testing.drain(app)
    after = db.execute("select posthouse.now()").fetchone()[0]
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        found = await insights.read_log(connection, handle.id)
        second = await insights.read_log(connection, handle.id, which=insights.AttemptFilter(2))
        behind = await insights.read_log(connection, handle.id, after=found[0].sequence)
    assert [(line.attempt, line.text) for line in found] == [(1, "attempt 1"), (2, "attempt 2")]
    assert all(before <= line.at <= after for line in found)
    assert second == behind == found[1:]


@pytest.mark.parametrize(
    ("level", "kept"), [("warning", ["loud"]), ("debug", ["quiet", "loud"]), ("off", [])]
)
async def test_a_setting_says_from_which_level_lines_are_stored(settings, lines, level, kept):
    async with posthouse.App(settings=dataclasses.replace(settings, job_log_level=level)) as app:

        @app.job()
        async def talk(job: posthouse.Job):
            job.log.debug("quiet")
            job.log.error("loud")

        handle = await talk.enqueue()
        assert await testing.drain(app) == {"succeeded": 1}
    assert [text for _, _, text in lines(handle.id)] == kept


async def test_the_applications_own_log_still_gets_the_lines_with_the_callers_place(app, caplog):
    @app.job()
    async def talk(job: posthouse.Job):
        job.log.info("hello %s", "there")

    with caplog.at_level(logging.INFO, logger="posthouse.job"):
        handle = await talk.enqueue()
        await testing.drain(app)
    (record,) = [record for record in caplog.records if record.name == "posthouse.job"]
    assert (record.getMessage(), record.job_id, record.kind) == ("hello there", str(handle.id), "talk")
    assert record.pathname == __file__
    assert record.funcName == "talk"


async def test_unusual_lines_are_stored_without_errors(app, lines):
    @app.job(max_attempts=1)
    async def talk(job: posthouse.Job):
        job.log.info("a\x00b \ud800")
        job.log.info("wrong %d", "format")
        job.log.info("two\nlines")
        job.emit_output("stdout", "10%\r20%\r100%\r\n")
        job.log.info("x" * 50_000)
        try:
            int("inner")
        except ValueError:
            job.log.exception("it failed")
        with pytest.raises(posthouse.PosthouseError, match="stream must be one of"):
            job.emit_output("stdin", "x")

    logging.raiseExceptions, before = False, logging.raiseExceptions
    try:
        handle = await talk.enqueue()
        assert await testing.drain(app) == {"succeeded": 1}
    finally:
        logging.raiseExceptions = before
    texts = [text for _, _, text in lines(handle.id)]
    assert texts[0] == "a\\u0000b \\ud800"
    assert texts[1].startswith("'wrong %d' ('format',)")
    assert texts[2:5] == ["two", "lines", "100%"]
    assert len(texts[5]) < 17_000
    assert texts[5].endswith(" …")
    assert texts[6] == "it failed"
    assert texts[-1].startswith("ValueError: invalid literal")


async def test_a_flood_keeps_its_beginning_and_its_end_and_says_what_is_missing(settings, lines, db):
    small = dataclasses.replace(settings, job_log_bytes=200_000)
    async with posthouse.App(settings=small) as app:

        @app.job()
        async def flood(job: posthouse.Job):
            for number in range(10_000):
                job.log.info("line %06d %s", number, "x" * 400)
                if number % 100 == 0:
                    await asyncio.sleep(0)

        handle = await flood.enqueue()
        assert await testing.drain(app, timeout="100s") == {"succeeded": 1}
    found = [text for _, _, text in lines(handle.id)]
    assert found[0].startswith("line 000000")
    assert found[-1].startswith("line 009999")
    assert any(text.endswith("lines omitted]") for text in found)
    stored = sum(len(text) + 40 for text in found)
    assert stored < 200_000 + 4 * BURST_BYTES


def test_the_memory_of_a_flood_is_bounded_however_long_nothing_can_be_written():
    lines = LogBuffer(MEGABYTE)
    for number in range(20_000):
        lines.add(BufferedLine(0.0, "log", "info", f"line {number} {'x' * 100}"))
    held = sum(said.size for said in (*lines._first, *lines._last))
    assert held <= 2 * BURST_BYTES
    taken = [said.text for said in lines.take()]
    assert taken[0].startswith("line 0 ")
    assert taken[-1].startswith("line 19999 ")
    assert sum("lines omitted" in text for text in taken) == 1


async def test_trouble_with_the_log_table_does_not_reach_the_job(app, db, caplog):
    db.execute("alter table posthouse.log_lines rename to gone")

    @app.job(max_attempts=1)
    async def talk(job: posthouse.Job):
        job.log.info("hello")

    await talk.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert "cannot be stored" in caplog.text


async def test_who_lost_the_lease_writes_no_line(app, db, lines):
    seen = {}

    @app.job()
    async def talk(job: posthouse.Job):
        seen["id"] = job.id
        while "given" not in seen:
            await asyncio.sleep(0.01)
        job.log.info("late")
        seen["done"] = True

    async with running_worker(app, keeper=False, heartbeat_seconds=30, lease_seconds=60) as worker:
        await wait_for_startup_heartbeats(worker)
        handle = await talk.enqueue()
        await eventually(lambda: seen.get("id"))
        with db.transaction():
            expire_lease_and_rescue(db, handle.id)
            claim_as_other_worker(db)
        seen["given"] = True
        await eventually(lambda: seen.get("done"))
    assert lines(handle.id) == []


async def test_following_gives_lines_as_they_come_and_ends_with_the_job(app, database):
    step = asyncio.Semaphore(0)

    @app.job(retry=posthouse.Retry(0, 0, 0, 0))
    async def talk(job: posthouse.Job):
        for number in range(3):
            await step.acquire()
            job.log.info("%d.%d", job.attempt, number)
        if job.attempt == 1:
            raise ValueError

    handle = await talk.enqueue()
    seen = []
    async with (
        running_worker(app),
        await psycopg.AsyncConnection.connect(database, autocommit=True) as connection,
    ):
        step.release()
        async with asyncio.timeout(WAIT_SECONDS):
            async for page in insights.follow_log(connection, handle.id):
                for line in page:
                    seen.append(line.text)
                    step.release()
    assert seen == ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]


async def test_following_one_attempt_ends_with_it(app, database):
    hold = asyncio.Event()

    @app.job(retry=posthouse.Retry(0, 0, 0, 0))
    async def talk(job: posthouse.Job):
        job.log.info("attempt %d", job.attempt)
        if job.attempt == 1:
            raise ValueError
        await hold.wait()

    handle = await talk.enqueue()
    async with (
        running_worker(app),
        await psycopg.AsyncConnection.connect(database, autocommit=True) as connection,
    ):
        which = insights.AttemptFilter(1)
        async with asyncio.timeout(WAIT_SECONDS):
            seen = [
                line.text
                async for page in insights.follow_log(connection, handle.id, which=which)
                for line in page
            ]
        hold.set()
        await handle.wait("20s")
    assert seen == ["attempt 1"]


async def test_a_notification_is_only_sent_while_the_log_is_followed(db, database):
    job_id = db.execute("select posthouse.enqueue('talk')").fetchone()[0]
    _, token = claim_as_other_worker(db)
    write = "select posthouse.write_log(%s, %s, '{0}', '{log}', '{info}', '{hello}')"

    def notified_jobs(connection):
        connection.execute(write, ([job_id], [token]))
        return [item.payload for item in connection.notifies(timeout=0.2)]

    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("listen posthouse_log")
        assert notified_jobs(listener) == []
        with psycopg.connect(database, autocommit=True) as follower:
            follower.execute("select pg_advisory_lock_shared(7706, hashtext(%s))", (str(job_id),))
            assert notified_jobs(listener) == [str(job_id)]
        assert db.execute("select count(*) from posthouse.log_lines").fetchone() == (2,)


async def test_following_a_job_that_is_not_there_says_so(database):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        with pytest.raises(JobNotFound):
            await anext(insights.follow_log(connection, uuid4()))


async def test_what_a_job_left_goes_with_its_history(app, db):
    @app.job()
    async def talk(job: posthouse.Job):
        job.log.info("hello")
        await job.step("one", lambda: 1)
        await job.part("720p").complete()

    old = await talk.enqueue()
    await testing.drain(app)

    def count(table):
        return db.execute(f"select count(*) from posthouse.{table}").fetchone()[0]

    assert [count(table) for table in ("log_lines", "steps", "parts")] == [1, 1, 1]
    connection = ReconnectingConnection(app.settings.database_url, "tests")
    await RetentionRun(connection, {"default": -2}).run()
    await connection.close()
    assert [count(table) for table in ("log_lines", "steps", "parts")] == [0, 0, 0]
    assert db.execute("select count(*) from posthouse.jobs where id = %s", (old.id,)).fetchone() == (0,)


async def test_what_is_left_of_jobs_that_are_gone_is_tidied_and_that_of_others_stays(app, db):
    go = asyncio.Event()

    @app.job()
    async def talk(job: posthouse.Job):
        await job.step("one", lambda: 1)
        await job.part("720p").complete()
        if job.payload["stay"]:
            await go.wait()

    gone, stays = await talk.enqueue(stay=False), await talk.enqueue(stay=True)
    async with running_worker(app):
        await gone.wait("20s")
        await eventually(lambda: db.execute("select count(*) from posthouse.parts").fetchone() == (2,))
        db.execute("delete from posthouse.history where id = %s", (gone.id,))
        later = "posthouse.now() + interval '1 day'"
        assert db.execute(f"select posthouse.delete_stale_rows({later})").fetchone()[0] == 2
        left = db.execute("select job_id from posthouse.steps union all select job_id from posthouse.parts")
        assert left.fetchall() == [(stays.id,), (stays.id,)]
        assert job_status(db, stays.id) == "running"
        go.set()


async def test_secrets_of_the_payload_are_in_no_line_however_it_is_cut(app, lines, parts):
    canary = "canary-7f3a9b2e1d"

    @app.job()
    async def talk(job: posthouse.Job, password: str):
        job.log.info("with %s", password)
        job.emit_output("stdout", f"half {password[:9]}")
        job.emit_output("stdout", f"{password[9:]}\n")
        job.emit_output("stdout", "x" * (LINE_LIMIT - 5) + password + "y" * 100_000 + "\n")
        job.emit_output("stderr", f"no end of line {password}")
        await job.part("a").progress(1, message=f"got {password}")
        await job.part("b").fail(f"not {password}")

    handle = await talk.enqueue(password=canary)
    assert await testing.drain(app) == {"succeeded": 1}
    found = [text for _, _, text in lines(handle.id)]
    assert len(found) == 4
    said = "".join([*found, *(f"{part['message']} {part['error']}" for part in parts(handle.id).values())])
    assert canary[:6] not in said
    assert len(max(found, key=len)) <= LINE_LIMIT + 2
