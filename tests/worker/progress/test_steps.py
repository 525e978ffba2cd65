"""Durable steps: a finished step is never run again."""

import asyncio
import dataclasses
import os
import signal
import time
from datetime import date
from pathlib import Path

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.errors import InvalidReport
from support import forkserver
from support.waiting import eventually, eventually_sync
from support.workers import (
    attempt_outcomes,
    cancel,
    claim_as_other_worker,
    expire_lease_and_rescue,
    job_row,
    job_status,
    running_worker,
    wait_for_startup_heartbeats,
)

AT_ONCE = posthouse.Retry(0, 0, 0, 0)
WORKER = Path(__file__).with_name("step_worker.py")


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_retry_goes_on_behind_the_steps_that_are_done(app, steps, in_thread):
    ran = []

    def chunk(number):
        ran.append(number)
        return {"frames": number * 50}

    async def chunk_async(number):
        return chunk(number)

    async def ocr_async(job: posthouse.Job):
        results = []
        for number in range(4):
            if number == 2 and job.attempt == 1:
                raise ValueError
            results.append(await job.step(f"ocr:{number}", chunk_async, number))
        return results

    def ocr_thread(job: posthouse.Job):
        results = []
        for number in range(4):
            if number == 2 and job.attempt == 1:
                raise ValueError
            results.append(job.step(f"ocr:{number}", chunk, number))
        return results

    handle = await app.job("ocr", retry=AT_ONCE)(ocr_thread if in_thread else ocr_async).enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ran == [0, 1, 2, 3]
    assert await handle.wait("60s") == [{"frames": number * 50} for number in range(4)]
    assert [name for name, _ in steps(handle.id)] == ["ocr:0", "ocr:1", "ocr:2", "ocr:3"]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_names_of_finished_steps_can_be_asked_for(app, in_thread):
    async def ocr_async(job: posthouse.Job):
        await job.step("one", lambda: 1)
        await job.step("two", lambda: 2)
        return await job.steps_done()

    def ocr_thread(job: posthouse.Job):
        job.step("one", lambda: 1)
        job.step("two", lambda: 2)
        return job.steps_done()

    handle = await app.job("ocr")(ocr_thread if in_thread else ocr_async).enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert await handle.wait("60s") == ["one", "two"]


def test_a_worker_killed_half_way_leaves_every_effect_made_once(database, db, tmp_path):
    db.execute("create table effects (name text)")
    started, go = tmp_path / "started", tmp_path / "go"
    (job_id,) = db.execute(
        "select posthouse.enqueue('read_frames', jsonb_build_object('started', %s::text, 'go', %s::text))",
        (str(started), str(go)),
    ).fetchone()
    environment = {
        **os.environ, "POSTHOUSE_DATABASE_URL": database,
        "POSTHOUSE_HEARTBEAT_SECONDS": "0.2", "POSTHOUSE_LEASE_SECONDS": "20",
        "POSTHOUSE_RESCUE_GRACE_SECONDS": "0",
    }  # fmt: skip
    workers = []
    try:
        workers.append(forkserver.start_python([WORKER], env=environment))
        eventually_sync(started.exists)
        workers[0].send_signal(signal.SIGKILL)
        workers[0].wait()
        go.touch()
        workers.append(forkserver.start_python([WORKER], env=environment))
        eventually_sync(lambda: job_status(db, job_id) == "succeeded")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    effects = [name for (name,) in db.execute("select name from effects order by name").fetchall()]
    assert [name[:7] for name in effects] == [f"chunk {number}" for number in range(5)]
    assert effects[0] == "chunk 0 by attempt 1"
    assert effects[4] == "chunk 4 by attempt 2"
    assert job_row(db, job_id)["result"] == 100
    assert attempt_outcomes(db, job_id) == [(1, "lost"), (2, "succeeded")]


@pytest.mark.parametrize("keep", [True, False])
async def test_a_kind_says_whether_steps_are_kept(app, keep):
    ran = []

    @app.job(retry=AT_ONCE, keep_steps=keep)
    async def ocr(job: posthouse.Job):
        await job.step("one", ran.append, job.attempt)
        if job.attempt == 1:
            raise ValueError

    await ocr.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ran == ([1] if keep else [1, 2])


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_persons_retry_keeps_steps_and_progress_unless_it_is_to_be_fresh(app, db, parts, fresh):
    ran = []

    @app.job(max_attempts=1)
    async def ocr(job: posthouse.Job):
        await job.step("one", ran.append, job.generation)
        await job.part("720p").complete()
        if job.generation == 1:
            raise ValueError

    handle = await ocr.enqueue()
    assert await testing.drain(app) == {"dead_letter": 1}
    assert db.execute("select posthouse.reopen(%s, p_fresh => %s)", (handle.id, fresh)).fetchone() == (
        "queued",
    )
    assert job_row(db, handle.id)["progress_percent"] == (None if fresh else 100)
    assert bool(parts(handle.id)) is not fresh
    await testing.drain(app)
    assert job_status(db, handle.id) == "succeeded"
    assert ran == ([1, 2] if fresh else [1])


async def test_the_result_is_the_same_json_the_first_time_and_later(app):
    seen = []

    @app.job(retry=AT_ONCE)
    async def ocr(job: posthouse.Job):
        seen.append(await job.step("one", lambda: {"at": date(2030, 1, 1), "pair": (1, 2), "none": None}))
        seen.append(await job.step("nothing", lambda: None))
        if job.attempt == 1:
            raise ValueError

    await ocr.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert seen == [{"at": "2030-01-01", "pair": [1, 2], "none": None}, None] * 2


async def test_a_result_that_cannot_be_kept_is_refused_with_a_reason(settings, steps):
    small = dataclasses.replace(settings, max_result_bytes=1000)
    async with posthouse.App(settings=small) as app:
        seen = []

        @app.job()
        async def ocr(job: posthouse.Job):
            for value in ("x" * 1000, object(), float("nan"), "a\x00b"):
                with pytest.raises(InvalidReport) as error:
                    await job.step("one", lambda value=value: value)
                seen.append(str(error.value))
            await job.step("fits", lambda: "x" * 998)
            for name in ("", 7, "x" * 201):
                with pytest.raises(InvalidReport, match="name of a step"):
                    await job.step(name, lambda: 1)

        handle = await ocr.enqueue()
        assert await testing.drain(app) == {"succeeded": 1}
    assert "the result of step 'one' is larger than 1,000 bytes" in seen[0]
    assert "max_result_bytes" in seen[0]
    assert "not JSON" in seen[1]
    assert "NaN" in seen[2]
    assert "NUL" in seen[3]
    assert [name for name, _ in steps(handle.id)] == ["fits"]


async def test_a_step_that_fails_is_not_kept_and_runs_again(app, steps):
    ran = []

    @app.job(retry=AT_ONCE)
    async def ocr(job: posthouse.Job):
        def flaky():
            ran.append(job.attempt)
            if job.attempt == 1:
                raise ValueError
            return "good"

        return await job.step("flaky", flaky)

    handle = await ocr.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ran == [1, 2]
    assert steps(handle.id) == [("flaky", "good")]


async def test_two_steps_of_one_name_at_once_are_refused(app):
    @app.job()
    async def ocr(job: posthouse.Job):
        slow = asyncio.ensure_future(job.step("one", asyncio.sleep, 0.05))
        await asyncio.sleep(0)
        with pytest.raises(InvalidReport, match="is already running"):
            await job.step("one", lambda: 1)
        await slow

    await ocr.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}


async def test_an_async_step_in_a_thread_is_refused_with_a_reason(app):
    @app.job()
    def ocr(job: posthouse.Job):
        with pytest.raises(InvalidReport, match="this handler runs in a thread"):
            job.step("one", asyncio.sleep, 0)

    await ocr.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}


@pytest.mark.parametrize("in_thread", [False, True])
async def test_who_lost_the_lease_cannot_keep_a_step(app, db, steps, in_thread):
    seen = {}

    async def ocr_async(job: posthouse.Job):
        seen["id"] = job.id
        while "given" not in seen:
            await asyncio.sleep(0.01)
        try:
            await job.step("late", lambda: 1)
        except posthouse.LeaseLost:
            seen["lost"] = True
            raise

    def ocr_thread(job: posthouse.Job):
        seen["id"] = job.id
        while "given" not in seen:
            time.sleep(0.01)
        try:
            job.step("late", lambda: 1)
        except posthouse.LeaseLost:
            seen["lost"] = True
            raise

    handle = await app.job("ocr")(ocr_thread if in_thread else ocr_async).enqueue()
    async with running_worker(app, keeper=False, heartbeat_seconds=30, lease_seconds=60) as worker:
        await wait_for_startup_heartbeats(worker)
        await eventually(lambda: seen.get("id"))
        with db.transaction():
            expire_lease_and_rescue(db, handle.id)
            claim_as_other_worker(db)
        seen["given"] = True
        await eventually(lambda: seen.get("lost"))
    assert steps(handle.id) == []


async def test_a_step_waits_for_postgres_to_come_back(app, steps, cut_off):
    @app.job(max_attempts=1)
    async def ocr(job: posthouse.Job):
        await job.step("one", lambda: 1)
        await asyncio.to_thread(cut_off)
        await job.step("two", lambda: 2)

    handle = await ocr.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert steps(handle.id) == [("one", 1), ("two", 2)]


@pytest.fixture
def ledger(db):
    db.execute("create table ledger (entry text)")
    return lambda: [entry for (entry,) in db.execute("select entry from ledger order by entry").fetchall()]


ENTRY = "insert into ledger values (%s)"


async def charge_async(connection, amount, attempt):
    await connection.execute(ENTRY, (f"{amount} by attempt {attempt}",))
    if attempt == 1:
        raise ValueError
    return "receipt"


def charge_thread(connection, amount, attempt):
    connection.execute(ENTRY, (f"{amount} by attempt {attempt}",))
    if attempt == 1:
        raise ValueError
    return "receipt"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_an_effect_and_its_step_land_together_and_once(app, db, ledger, in_thread):
    async def pay_async(job: posthouse.Job):
        async with job.step_commit("first") as connection:
            if connection:
                await connection.execute(ENTRY, (f"first by attempt {job.attempt}",))
        receipt = await job.step_commit("charge", charge_async, 7, job.attempt)
        if job.attempt == 2:
            raise ValueError
        return receipt

    def pay_thread(job: posthouse.Job):
        with job.step_commit("first") as connection:
            if connection:
                connection.execute(ENTRY, (f"first by attempt {job.attempt}",))
        receipt = job.step_commit("charge", charge_thread, 7, attempt=job.attempt)
        if job.attempt == 2:
            raise ValueError
        return receipt

    handle = await app.job("pay", retry=AT_ONCE)(pay_thread if in_thread else pay_async).enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert ledger() == ["7 by attempt 2", "first by attempt 1"]
    assert await handle.wait("60s") == "receipt"
    (same,) = db.execute(
        "select count(*) from ledger l join posthouse.steps s on s.xmin = l.xmin where s.job_id = %s",
        (handle.id,),
    ).fetchone()
    assert same == 2, "each effect and its step were written by one transaction"


async def test_without_the_lease_neither_effect_nor_step_is_written(app, db, ledger, steps):
    seen = {}

    @app.job()
    async def pay(job: posthouse.Job):
        try:
            async with job.step_commit("charge") as connection:
                await connection.execute(ENTRY, ("paid",))
                await asyncio.to_thread(expire_lease_and_rescue, db, job.id)
        except posthouse.LeaseLost:
            seen["lost"] = True
            raise

    async with running_worker(
        app, keeper=False, heartbeat_seconds=30, lease_seconds=60, concurrency=1
    ) as worker:
        await wait_for_startup_heartbeats(worker)
        handle = await pay.enqueue()
        await eventually(lambda: seen.get("lost"))
    assert ledger() == []
    assert steps(handle.id) == []


async def test_a_canceled_job_commits_no_further_step(app, db, ledger, steps):
    @app.job()
    async def pay(job: posthouse.Job):
        async with job.step_commit("charge") as connection:
            await connection.execute(ENTRY, ("paid",))
            cancel(
                db, job.id
            )  # blocks the loop: in a thread, the cancellation could arrive before it returns

    handle = await pay.enqueue()
    async with running_worker(app, keeper=False, heartbeat_seconds=30, lease_seconds=60):
        await eventually(lambda: job_status(db, handle.id) == "canceled")
    assert ledger() == []
    assert steps(handle.id) == []


async def test_a_first_attempt_asks_for_no_steps(app, db, database):
    """Looking them up is only worth a statement when there may be some."""

    @app.job()
    async def ocr(job: posthouse.Job):
        assert job.is_first_attempt
        await job.step("one", lambda: 1)

    await ocr.enqueue()
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("alter table posthouse.steps rename column ordinal to hidden")
    assert await testing.drain(app) == {"succeeded": 1}
