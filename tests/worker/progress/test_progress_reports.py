"""job.progress: written now and then, the last report always, and only with the live token."""

import asyncio
import json
import math
import time

import psycopg
import pytest

import posthouse
from posthouse import testing
from posthouse.errors import InvalidReport
from support.waiting import WAIT_SECONDS, eventually
from support.workers import (
    claim_as_other_worker,
    expire_lease_and_rescue,
    job_row,
    job_status,
    running_worker,
    wait_for_startup_heartbeats,
)

INTERVAL = 0.25


@pytest.mark.parametrize("in_thread", [False, True])
async def test_many_reports_are_few_writes_and_the_last_one_lands(app, db, report_statements, in_thread):
    took = {}

    async def count_async(job: posthouse.Job):
        started = time.monotonic()
        for number in range(1000):
            await job.progress(number / 10, message=f"row {number}")
        took["seconds"] = time.monotonic() - started

    def count_thread(job: posthouse.Job):
        started = time.monotonic()
        for number in range(1000):
            job.progress(number / 10, message=f"row {number}")
        took["seconds"] = time.monotonic() - started

    handle = await app.job("count")(count_thread if in_thread else count_async).enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    seen = job_row(db, handle.id)
    assert seen["progress_message"] == "row 999"
    assert report_statements() <= took["seconds"] / INTERVAL + 3


async def test_reports_of_many_jobs_share_a_statement(app, db, report_statements):
    together = asyncio.Barrier(50)

    @app.job()
    async def count(job: posthouse.Job):
        await together.wait()
        await job.progress(50, message="half")

    handles = [await count.enqueue() for _ in range(50)]
    assert await testing.drain(app) == {"succeeded": 50}
    assert report_statements() <= 5
    assert all(job_row(db, handle.id)["progress_message"] == "half" for handle in handles)


async def test_a_job_that_succeeds_is_at_100_percent_and_one_that_fails_stays_where_it_was(app, db):
    @app.job(max_attempts=1)
    async def count(job: posthouse.Job, reports: bool, fails: bool):
        if reports:
            await job.progress(66)
        if fails:
            raise posthouse.Fail("stopped at 66 percent")

    wanted = {(True, False): 100, (True, True): 66, (False, False): None}
    handles = {case: await count.enqueue(reports=case[0], fails=case[1]) for case in wanted}
    assert await testing.drain(app) == {"succeeded": 2, "failed": 1}
    assert {case: job_row(db, handle.id)["progress_percent"] for case, handle in handles.items()} == wanted


async def test_jobs_that_report_nothing_write_nothing_and_open_no_connection(app, db, report_statements):
    @app.job()
    async def quiet(job: posthouse.Job):
        return 1

    async with running_worker(app):
        await (await quiet.enqueue()).wait("20s")
        ours = "select application_name from pg_stat_activity where datname = current_database()"
        names = [name for (name,) in db.execute(ours).fetchall()]
    assert "posthouse claims" in names
    assert "posthouse notes" not in names
    assert report_statements() == 0


@pytest.mark.parametrize("percent", [-1, 100.5, math.nan, math.inf, "half", True])
async def test_a_percentage_is_from_0_to_100(app, percent):
    @app.job()
    async def count(job: posthouse.Job):
        with pytest.raises(InvalidReport, match="percent must be a number from 0 to 100"):
            await job.progress(percent)
        with pytest.raises(InvalidReport, match="percent must be a number from 0 to 100"):
            await job.part("a").progress(percent)

    await testing.run(count)


async def test_texts_that_postgres_cannot_hold_are_stored_escaped_and_long_ones_cut(app, db):
    @app.job()
    async def count(job: posthouse.Job):
        await job.progress(1, step="a\x00b", message="\ud800" + "x" * 5000)

    handle = await count.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    seen = job_row(db, handle.id)
    assert seen["current_step"] == "a\\u0000b"
    assert seen["progress_message"].startswith("\\ud800x")
    assert len(seen["progress_message"]) == 1000


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_lost_lease_is_reported_by_a_later_progress_call(app, db, in_thread):
    seen = {}

    async def hold_async(job: posthouse.Job):
        await job.progress(10)
        seen["running"] = True
        while "given" not in seen:
            await asyncio.sleep(0.01)
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            while time.monotonic() < deadline:
                await job.progress(99)
        except posthouse.LeaseLost:
            seen["lost"] = True
            raise

    def hold_thread(job: posthouse.Job):
        job.progress(10)
        seen["running"] = True
        while "given" not in seen:
            time.sleep(0.01)
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            while time.monotonic() < deadline:
                job.progress(99)
        except posthouse.LeaseLost:
            seen["lost"] = True
            raise

    handle = await app.job("hold")(hold_thread if in_thread else hold_async).enqueue()
    # Beats are far apart: it is the report that finds out.
    async with running_worker(app, keeper=False, heartbeat_seconds=30, lease_seconds=60) as worker:
        await wait_for_startup_heartbeats(worker)
        await eventually(lambda: seen.get("running"))
        with db.transaction():
            expire_lease_and_rescue(db, handle.id)
            claim_as_other_worker(db)
        seen["given"] = True
        await eventually(lambda: seen.get("lost"))
    assert job_row(db, handle.id)["progress_percent"] == 10
    assert job_status(db, handle.id) == "running", "the other worker has it"


async def test_a_report_waits_out_a_lost_connection_without_harm_to_the_job(app, db, cut_off):
    @app.job(max_attempts=1)
    async def count(job: posthouse.Job):
        await job.progress(10)
        await asyncio.to_thread(cut_off)
        for percent in range(20, 61, 10):
            await job.progress(percent, message=f"at {percent}")

    handle = await count.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert job_row(db, handle.id)["progress_message"] == "at 60"


async def test_a_locked_row_delays_only_its_own_report(app, db, database):
    go = asyncio.Event()

    @app.job()
    async def count(job: posthouse.Job):
        await go.wait()
        await job.progress(50, message="half")

    held, free = await count.enqueue(), await count.enqueue()
    async with running_worker(app):
        await eventually(lambda: all(job_status(db, handle.id) == "running" for handle in (held, free)))
        with psycopg.connect(database) as other:
            other.execute("select from posthouse.running where id = %s for update", (held.id,))
            go.set()
            await free.wait("20s")
            assert job_status(db, held.id) == "running"
            other.rollback()
        await held.wait("20s")
    assert job_row(db, held.id)["progress_message"] == "half"


async def test_a_job_that_commits_by_itself_shows_its_last_report(app, db):
    @app.job()
    async def count(job: posthouse.Job):
        async with job.commit():
            for percent in range(101):
                await job.progress(percent)

    handle = await count.enqueue()
    assert await testing.drain(app) == {"succeeded": 1}
    assert job_row(db, handle.id)["progress_percent"] == 100


async def test_one_lost_lease_in_a_batch_leaves_the_others_their_attempt(app, db):
    seen = {}

    @app.job(batch=2)
    async def pair(jobs: list[posthouse.Job]):
        if len(jobs) < 2 or "given" in seen:
            return
        seen["ids"] = [job.id for job in jobs]
        await asyncio.to_thread(expire_lease_and_rescue, db, jobs[0].id)
        seen["given"] = True
        for job in jobs:
            await job.progress(50)

    async with running_worker(app, keeper=False, heartbeat_seconds=30, lease_seconds=60) as worker:
        await wait_for_startup_heartbeats(worker)
        await app.client.enqueue_many([posthouse.Request(kind="pair", payload={}) for _ in range(2)])
        await eventually(lambda: seen.get("ids"))
        other = seen["ids"][1]
        await eventually(lambda: job_status(db, other) == "succeeded")
    assert job_row(db, other)["crashes"] == 0


def test_a_stale_token_changes_nothing_and_is_reported(db):
    db.execute("select posthouse.enqueue('task')")
    job_id, token = claim_as_other_worker(db)
    other = "00000000-0000-0000-0000-000000000000"
    report = [
        {"id": str(job_id), "token": other, "percent": 50, "parts": [{"name": "a", "status": "failed"}]}
    ]
    verdicts = db.execute("select id, verdict from posthouse.report(%s, '1 min')", (json.dumps(report),))
    assert verdicts.fetchall() == [(job_id, "lost")]
    kept = "select posthouse.save_step(%s, %s, '1 min', 'a', '1', 0)"
    assert db.execute(kept, (job_id, other)).fetchone() == ("lost",)
    written = "select posthouse.write_log(%s, %s, '{0}', '{log}', '{info}', '{hello}')"
    assert db.execute(written, ([job_id], [other])).fetchone() == (0,)
    assert job_row(db, job_id)["progress_percent"] is None
    for table in ("parts", "steps", "log_lines"):
        assert db.execute(f"select count(*) from posthouse.{table}").fetchone() == (0,)
    report[0]["token"] = str(token)
    assert db.execute("select from posthouse.report(%s, '1 min')", (json.dumps(report),)).fetchall() == []
    assert job_row(db, job_id)["progress_percent"] == 50
