"""The edge cases and races of a fleet that works over HTTP, with the numbers of the requirement document.

Time passes at the default intervals: heartbeats every 30 s, checks every minute, workers offline after 5
minutes, claims of 30 minutes, a grace period of 2 minutes after the start of the API.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import psycopg
import pytest
from vlog_fleet import CLAIM_SECONDS, GRACE_SECONDS, OFFLINE_SECONDS, Fleet

from posthouse import testing
from posthouse.server import health
from posthouse.server.routes.worker import jobs as worker_jobs
from support.waiting import WAIT_SECONDS

BOTH = "select v.status, j.status from vlog.videos as v join posthouse.jobs as j on j.id = v.job_id"
AGREEING = {
    ("pending", "queued"),
    ("processing", "running"),
    ("processing", "succeeded"),  # the output is being validated
    ("ready", "succeeded"),
    ("failed", "failed"),
    ("failed", "dead_letter"),
    ("failed", "canceled"),
}
LOCKED = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
def remote_grace_seconds(monkeypatch):
    """The default. The server sends only its first heartbeat by itself: the fleet moves the clock."""
    monkeypatch.setattr(health, "BEAT_SECONDS", 3600.0)
    return float(GRACE_SECONDS)


@pytest.fixture
async def fleet(running_app):
    url = running_app.settings.database_url
    async with (
        testing.clock(running_app.app) as clock,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as db,
    ):
        fleet = Fleet(running_app, clock, db)
        yield fleet
        await fleet.close()


@pytest.fixture
async def settled(fleet):
    """The same, when the grace period after the start of the API is over."""
    await fleet.wait(GRACE_SECONDS + 1)
    return fleet


@pytest.fixture
def note(tmp_path):
    """A file that is called a video, for workers that do not read it."""
    file = tmp_path / "note.mp4"
    file.write_bytes(b"moving pictures")
    return file


def job_of(running_app, video):
    (row,) = running_app.rows("select * from vlog.transcoding_jobs where video_id = %s", video["id"])
    return row


async def status_of(vlog_client, video):
    return (await vlog_client.video(video))["status"]


async def test_1_two_workers_never_claim_the_same_job(vlog_client, fleet, note):
    videos = [await vlog_client.upload(note, f"video {number}") for number in range(3)]
    worker_clients = [await fleet.register_worker(f"hand {number}") for number in range(5)]
    claimed = await asyncio.gather(*(worker_client.claim() for worker_client in worker_clients))
    ids = [job["job_id"] for job in claimed if job]
    assert sorted(ids) == sorted(video["job_id"] for video in videos)
    assert {await status_of(vlog_client, video) for video in videos} == {"processing"}


async def test_2_the_job_of_a_crashed_worker_runs_again_and_what_was_done_is_kept(vlog_client, settled, note):
    video = await vlog_client.upload(note)
    first, second = await settled.register_worker("first"), await settled.register_worker("second")
    job = await first.claim()
    done = {"quality": "144p", "status": "completed", "segments_total": 2, "segments_completed": 2}
    begun = {"quality": "240p", "progress_percent": 50, "segments_total": 2, "segments_completed": 1}
    await first.report(job, current_step="transcode", quality_progress=[done, begun])
    await settled.wait(CLAIM_SECONDS - 60, second)
    assert await status_of(vlog_client, video) == "processing"
    await settled.wait(120, second)
    assert await status_of(vlog_client, video) == "pending"
    again = await second.claim()
    assert (again["job_id"], again["attempt"]) == (job["job_id"], 2)
    assert vlog_client.parts(video) == [("144p", "completed", 1), ("240p", "in_progress", 1)]


async def test_3_an_offline_worker_keeps_its_job_while_its_claim_is_valid(vlog_client, settled, note):
    video = await vlog_client.upload(note)
    worker_client = await settled.register_worker()
    job = await worker_client.claim()
    await settled.wait(OFFLINE_SECONDS - 30)
    assert settled.status(worker_client) == "busy"
    await settled.wait(60)
    assert settled.status(worker_client) == "offline"
    assert job_of(vlog_client.running_app, video)["status"] == "running"
    await settled.wait(CLAIM_SECONDS - OFFLINE_SECONDS - 90)
    assert job_of(vlog_client.running_app, video)["status"] == "running"
    await worker_client.done(job)
    assert job_of(vlog_client.running_app, video)["status"] == "succeeded"


async def test_4_a_heartbeat_during_the_check_saves_the_worker(vlog_client, settled):
    running_app, worker_client = vlog_client.running_app, await settled.register_worker()
    await worker_client.beat()
    await settled.clock.advance(OFFLINE_SECONDS + 1)
    beat = "select posthouse.heartbeat(%s, '{}', '{}', '30 min')"
    async with settled.locked(beat, worker_client.id) as beating:
        await settled.server_beat()  # after the lock: without it no worker is judged
        check = asyncio.create_task(settled.check())
        await running_app.until(lambda: running_app.rows(LOCKED), "the check at the worker's row")
        await beating.commit()
    await check
    assert settled.status(worker_client) == "idle"
    assert running_app.rows("select from posthouse.worker_changes where change = 'lost'") == []


async def test_5_gpu_workers_go_first_but_not_for_ever(vlog_client, fleet, note):
    cpu, gpu = await fleet.register_worker("cpu"), await fleet.register_worker("gpu", gpu=True)
    await gpu.beat()
    first, second = [await vlog_client.upload(note, title) for title in ("first", "second")]
    assert await cpu.claim() is None
    assert (await gpu.claim())["job_id"] == first["job_id"]
    assert (await cpu.claim())["job_id"] == second["job_id"], "the GPU is busy"
    await vlog_client.upload(note, "third")
    idle, other = await fleet.register_worker("idle gpu", gpu=True), await fleet.register_worker("other cpu")
    await idle.beat()
    await fleet.clock.advance(50)
    assert await other.claim() is None
    await fleet.clock.advance(12)
    assert await other.claim() is not None, "the GPU worker had two heartbeat intervals"


async def test_6_a_restart_of_the_api_costs_no_job_and_its_grace_period_ends(vlog_client, settled, note):
    running_app = vlog_client.running_app
    kept, lost = [await vlog_client.upload(note, title) for title in ("kept", "lost")]
    quick, gone = await settled.register_worker("quick"), await settled.register_worker("gone")
    job, _ = await quick.claim(), await gone.claim()
    await settled.stop_server()
    await settled.wait(CLAIM_SECONDS + 60)  # no worker could report
    assert {job_of(running_app, video)["status"] for video in (kept, lost)} == {"running"}
    await settled.start_server()
    await settled.wait(GRACE_SECONDS - 30)
    assert {job_of(running_app, video)["status"] for video in (kept, lost)} == {"running"}
    await quick.report(job, progress_percent=50)
    await settled.wait(90, quick)
    assert job_of(running_app, lost)["status"] == "queued"
    assert settled.status(gone) == "offline"
    await quick.done(job)
    assert (job_of(running_app, kept)["status"], job_of(running_app, kept)["attempt_number"]) == (
        "succeeded",
        1,
    )


async def test_7_a_report_after_the_claim_expired_is_refused(vlog_client, settled, note):
    video = await vlog_client.upload(note)
    late, prompt = await settled.register_worker("late"), await settled.register_worker("prompt")
    job = await late.claim()
    await settled.wait(CLAIM_SECONDS + 60, prompt)
    again = await prompt.claim()
    for path, body in (("complete", {"result": "late"}), ("fail", {"error_message": "x"}), ("progress", {})):
        refused = await late.ask(path, 409, job_id=job["job_id"], **body)
        assert refused["code"] == "lease_lost"
    assert await status_of(vlog_client, video) == "processing"
    await prompt.ask("complete", job_id=again["job_id"], result="prompt")
    (row,) = vlog_client.running_app.rows("select result from posthouse.jobs where id = %s", again["job_id"])
    assert row["result"] == "prompt"


async def test_8_the_status_of_a_video_agrees_with_its_job_at_every_moment(vlog_client, settled, note):
    running_app = vlog_client.running_app
    seen, over = set(), asyncio.Event()

    async def look():
        async with await psycopg.AsyncConnection.connect(
            running_app.settings.database_url, autocommit=True
        ) as db:
            while not over.is_set():
                seen.update(await (await db.execute(BOTH)).fetchall())

    looking = asyncio.create_task(look())
    for ending in ("crash", "failure", "exhaustion", "completion"):
        worker_client = await settled.register_worker(ending)
        video = await vlog_client.upload(note, ending)
        job = await worker_client.claim()
        if ending == "crash":
            await settled.wait(CLAIM_SECONDS + 60)
            await (await settled.register_worker("rescuer")).claim()
        elif ending == "completion":
            await worker_client.done(job)
        while ending in {"failure", "exhaustion"} and job:
            await worker_client.fail(job, retry=ending == "exhaustion")
            await settled.check()
            job = await worker_client.claim()
        if ending in {"failure", "exhaustion"}:
            failed = await vlog_client.video(video)
            assert (failed["status"], failed["error_message"]) == ("failed", "no codec")
    over.set()
    await looking
    assert {"processing", "failed"} <= {status for status, _ in seen}
    assert seen <= AGREEING


async def test_9_a_worker_that_never_sent_a_heartbeat_is_found_offline(vlog_client, settled):
    worker_client = await settled.register_worker()
    vlog_client.running_app.rows("update posthouse.workers set heartbeat_at = null returning id")
    await settled.wait(OFFLINE_SECONDS - 30)
    await settled.check()
    assert settled.status(worker_client) == "idle"
    await settled.wait(60)
    await settled.check()
    changes = vlog_client.running_app.rows("select change from posthouse.worker_changes order by id")
    assert [row["change"] for row in changes] == ["started", "lost"]
    await worker_client.beat()
    assert settled.status(worker_client) == "idle", "a heartbeat brings the worker back"


async def test_progress_extends_the_claim_and_is_recorded(vlog_client, settled, note):
    video = await vlog_client.upload(note)
    worker_client = await settled.register_worker("reporter")
    job = await worker_client.claim()
    claimed = job_of(vlog_client.running_app, video)
    assert (claimed["last_checkpoint"], claimed["worker_id"]) == (None, claimed["processed_by_worker_id"])
    assert (claimed["claim_expires_at"] - claimed["claimed_at"]).total_seconds() == CLAIM_SECONDS
    for step, percent in (("probe", 1), ("transcode", 40), ("finalize", 99)):
        await settled.wait(15 * 60, worker_client)
        await worker_client.report(job, current_step=step, progress_percent=percent)
    row = (await vlog_client.progress(video))["job"]
    assert (row["status"], row["current_step"], row["progress_percent"]) == ("running", "finalize", 99)
    now = job_of(vlog_client.running_app, video)
    assert (now["claim_expires_at"] - now["last_checkpoint"]).total_seconds() == CLAIM_SECONDS
    assert (now["last_checkpoint"] - now["claimed_at"]).total_seconds() >= 45 * 60
    await worker_client.done(job)
    ended = job_of(vlog_client.running_app, video)
    assert (ended["last_checkpoint"], ended["progress_percent"]) == (ended["completed_at"], 100)
    assert (ended["worker_id"], ended["processed_by_worker_name"]) == (None, "reporter")


async def test_a_completion_and_the_release_of_its_expired_claim_have_one_winner(vlog_client, settled, note):
    for number in range(5):
        video = await vlog_client.upload(note, f"video {number}")
        worker_client = await settled.register_worker(f"hand {number}")
        job = await worker_client.claim()
        await settled.clock.advance(CLAIM_SECONDS + 1)
        await settled.server_beat()
        completed, _ = await asyncio.gather(
            worker_client.http.post("complete", json={"job_id": job["job_id"]}), settled.check()
        )
        ended = job_of(vlog_client.running_app, video)["status"]
        assert (completed.status_code, ended) in {(200, "succeeded"), (409, "queued")}
        if ended == "queued":
            await worker_client.done(await worker_client.claim())


async def test_a_report_waits_for_a_transaction_that_has_locked_the_job(
    vlog_client, fleet, note, monkeypatch
):
    running_app, video, worker_client = (
        vlog_client.running_app,
        await vlog_client.upload(note),
        await fleet.register_worker(),
    )
    job = await worker_client.claim()
    refused, free = asyncio.Event(), asyncio.Event()

    async def pause(_):
        refused.set()
        await free.wait()

    monkeypatch.setattr(worker_jobs, "asyncio", SimpleNamespace(sleep=pause))
    lock = "select from posthouse.running where id = %s for update"
    async with fleet.locked(lock, job["job_id"]) as locking:
        reported = asyncio.create_task(worker_client.report(job, progress_percent=30))
        await asyncio.wait_for(refused.wait(), WAIT_SECONDS)
        await locking.commit()
    free.set()
    assert await reported == {"busy": False}
    assert job_of(running_app, video)["progress_percent"] == 30
    async with fleet.locked(lock, job["job_id"]) as locking:
        completed = asyncio.create_task(worker_client.done(job))
        await running_app.until(lambda: running_app.rows(LOCKED), "the completion at the job's row")
        await locking.commit()
    await completed
    assert job_of(running_app, video)["status"] == "succeeded"


async def test_a_failed_job_is_retried_at_once_up_to_its_attempts(vlog_client, fleet, note):
    video, worker_client = await vlog_client.upload(note), await fleet.register_worker()
    for attempt in (1, 2, 3):
        job = await worker_client.claim()
        assert job["attempt"] == attempt
        await worker_client.fail(job)
        await fleet.check()
        row = job_of(vlog_client.running_app, video)
        assert (row["attempt_number"], row["max_attempts"]) == (attempt, 3)
        assert row["last_error"] == "Error: no codec"
        assert fleet.status(worker_client) == "idle"
        assert await status_of(vlog_client, video) == ("pending" if attempt < 3 else "failed")
    assert await worker_client.claim() is None
    assert row["processed_by_worker_id"] is not None


async def test_an_offline_worker_returns_with_its_next_heartbeat(vlog_client, settled, note):
    worker_client = await settled.register_worker()
    await settled.wait(OFFLINE_SECONDS + 60)
    assert settled.status(worker_client) == "offline"
    await worker_client.beat()
    assert settled.status(worker_client) == "idle"
    await vlog_client.upload(note)
    assert await worker_client.claim() is not None
    assert settled.status(worker_client) == "busy"
    await settled.check()
    changes = vlog_client.running_app.rows("select change from posthouse.worker_changes order by id")
    assert [row["change"] for row in changes] == ["started", "lost", "back"]
