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
async def fleet(product):
    url = product.settings.database_url
    async with (
        testing.clock(product.app) as clock,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as db,
    ):
        fleet = Fleet(product, clock, db)
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


def job_of(product, video):
    (row,) = product.rows("select * from vlog.transcoding_jobs where video_id = %s", video["id"])
    return row


async def status_of(studio, video):
    return (await studio.video(video))["status"]


async def test_1_two_workers_never_claim_the_same_job(studio, fleet, note):
    videos = [await studio.upload(note, f"video {number}") for number in range(3)]
    hands = [await fleet.hire(f"hand {number}") for number in range(5)]
    claimed = await asyncio.gather(*(hand.claim() for hand in hands))
    ids = [job["job_id"] for job in claimed if job]
    assert sorted(ids) == sorted(video["job_id"] for video in videos)
    assert {await status_of(studio, video) for video in videos} == {"processing"}


async def test_2_the_job_of_a_crashed_worker_runs_again_and_what_was_done_is_kept(studio, settled, note):
    video = await studio.upload(note)
    first, second = await settled.hire("first"), await settled.hire("second")
    job = await first.claim()
    done = {"quality": "144p", "status": "completed", "segments_total": 2, "segments_completed": 2}
    begun = {"quality": "240p", "progress_percent": 50, "segments_total": 2, "segments_completed": 1}
    await first.report(job, current_step="transcode", quality_progress=[done, begun])
    await settled.wait(CLAIM_SECONDS - 60, second)
    assert await status_of(studio, video) == "processing"
    await settled.wait(120, second)
    assert await status_of(studio, video) == "pending"
    again = await second.claim()
    assert (again["job_id"], again["attempt"]) == (job["job_id"], 2)
    assert studio.parts(video) == [("144p", "completed", 1), ("240p", "in_progress", 1)]


async def test_3_an_offline_worker_keeps_its_job_while_its_claim_is_valid(studio, settled, note):
    video = await studio.upload(note)
    hand = await settled.hire()
    job = await hand.claim()
    await settled.wait(OFFLINE_SECONDS - 30)
    assert settled.status(hand) == "busy"
    await settled.wait(60)
    assert settled.status(hand) == "offline"
    assert job_of(studio.product, video)["status"] == "running"
    await settled.wait(CLAIM_SECONDS - OFFLINE_SECONDS - 90)
    assert job_of(studio.product, video)["status"] == "running"
    await hand.done(job)
    assert job_of(studio.product, video)["status"] == "succeeded"


async def test_4_a_heartbeat_during_the_check_saves_the_worker(studio, settled):
    product, hand = studio.product, await settled.hire()
    await hand.beat()
    await settled.clock.advance(OFFLINE_SECONDS + 1)
    beat = "select posthouse.heartbeat(%s, '{}', '{}', '30 min')"
    async with settled.locked(beat, hand.id) as beating:
        await settled.server_beat()  # after the lock: without it no worker is judged
        check = asyncio.create_task(settled.check())
        await product.until(lambda: product.rows(LOCKED), "the check at the worker's row")
        await beating.commit()
    await check
    assert settled.status(hand) == "idle"
    assert product.rows("select from posthouse.worker_changes where change = 'lost'") == []


async def test_5_gpu_workers_go_first_but_not_for_ever(studio, fleet, note):
    cpu, gpu = await fleet.hire("cpu"), await fleet.hire("gpu", gpu=True)
    await gpu.beat()
    first, second = [await studio.upload(note, title) for title in ("first", "second")]
    assert await cpu.claim() is None
    assert (await gpu.claim())["job_id"] == first["job_id"]
    assert (await cpu.claim())["job_id"] == second["job_id"], "the GPU is busy"
    await studio.upload(note, "third")
    idle, other = await fleet.hire("idle gpu", gpu=True), await fleet.hire("other cpu")
    await idle.beat()
    await fleet.clock.advance(50)
    assert await other.claim() is None
    await fleet.clock.advance(12)
    assert await other.claim() is not None, "the GPU worker had two heartbeat intervals"


async def test_6_a_restart_of_the_api_costs_no_job_and_its_grace_period_ends(studio, settled, note):
    product = studio.product
    kept, lost = [await studio.upload(note, title) for title in ("kept", "lost")]
    quick, gone = await settled.hire("quick"), await settled.hire("gone")
    job, _ = await quick.claim(), await gone.claim()
    await settled.stop_server()
    await settled.wait(CLAIM_SECONDS + 60)  # no worker could report
    assert {job_of(product, video)["status"] for video in (kept, lost)} == {"running"}
    await settled.start_server()
    await settled.wait(GRACE_SECONDS - 30)
    assert {job_of(product, video)["status"] for video in (kept, lost)} == {"running"}
    await quick.report(job, progress_percent=50)
    await settled.wait(90, quick)
    assert job_of(product, lost)["status"] == "queued"
    assert settled.status(gone) == "offline"
    await quick.done(job)
    assert (job_of(product, kept)["status"], job_of(product, kept)["attempt_number"]) == ("succeeded", 1)


async def test_7_a_report_after_the_claim_expired_is_refused(studio, settled, note):
    video = await studio.upload(note)
    late, prompt = await settled.hire("late"), await settled.hire("prompt")
    job = await late.claim()
    await settled.wait(CLAIM_SECONDS + 60, prompt)
    again = await prompt.claim()
    for path, body in (("complete", {"result": "late"}), ("fail", {"error_message": "x"}), ("progress", {})):
        refused = await late.ask(path, 409, job_id=job["job_id"], **body)
        assert refused["code"] == "lease_lost"
    assert await status_of(studio, video) == "processing"
    await prompt.ask("complete", job_id=again["job_id"], result="prompt")
    (row,) = studio.product.rows("select result from posthouse.jobs where id = %s", again["job_id"])
    assert row["result"] == "prompt"


async def test_8_the_status_of_a_video_agrees_with_its_job_at_every_moment(studio, settled, note):
    product = studio.product
    seen, over = set(), asyncio.Event()

    async def look():
        async with await psycopg.AsyncConnection.connect(
            product.settings.database_url, autocommit=True
        ) as db:
            while not over.is_set():
                seen.update(await (await db.execute(BOTH)).fetchall())

    looking = asyncio.create_task(look())
    for ending in ("crash", "failure", "exhaustion", "completion"):
        hand = await settled.hire(ending)
        video = await studio.upload(note, ending)
        job = await hand.claim()
        if ending == "crash":
            await settled.wait(CLAIM_SECONDS + 60)
            await (await settled.hire("rescuer")).claim()
        elif ending == "completion":
            await hand.done(job)
        while ending in {"failure", "exhaustion"} and job:
            await hand.fail(job, retry=ending == "exhaustion")
            await settled.check()
            job = await hand.claim()
        if ending in {"failure", "exhaustion"}:
            failed = await studio.video(video)
            assert (failed["status"], failed["error_message"]) == ("failed", "no codec")
    over.set()
    await looking
    assert {"processing", "failed"} <= {status for status, _ in seen}
    assert seen <= AGREEING


async def test_9_a_worker_that_never_sent_a_heartbeat_is_found_offline(studio, settled):
    hand = await settled.hire()
    studio.product.rows("update posthouse.workers set heartbeat_at = null returning id")
    await settled.wait(OFFLINE_SECONDS - 30)
    await settled.check()
    assert settled.status(hand) == "idle"
    await settled.wait(60)
    await settled.check()
    changes = studio.product.rows("select change from posthouse.worker_changes order by id")
    assert [row["change"] for row in changes] == ["started", "lost"]
    await hand.beat()
    assert settled.status(hand) == "idle", "a heartbeat brings the worker back"


async def test_progress_extends_the_claim_and_is_recorded(studio, settled, note):
    video = await studio.upload(note)
    hand = await settled.hire("reporter")
    job = await hand.claim()
    claimed = job_of(studio.product, video)
    assert (claimed["last_checkpoint"], claimed["worker_id"]) == (None, claimed["processed_by_worker_id"])
    assert (claimed["claim_expires_at"] - claimed["claimed_at"]).total_seconds() == CLAIM_SECONDS
    for step, percent in (("probe", 1), ("transcode", 40), ("finalize", 99)):
        await settled.wait(15 * 60, hand)
        await hand.report(job, current_step=step, progress_percent=percent)
    row = (await studio.progress(video))["job"]
    assert (row["status"], row["current_step"], row["progress_percent"]) == ("running", "finalize", 99)
    now = job_of(studio.product, video)
    assert (now["claim_expires_at"] - now["last_checkpoint"]).total_seconds() == CLAIM_SECONDS
    assert (now["last_checkpoint"] - now["claimed_at"]).total_seconds() >= 45 * 60
    await hand.done(job)
    ended = job_of(studio.product, video)
    assert (ended["last_checkpoint"], ended["progress_percent"]) == (ended["completed_at"], 100)
    assert (ended["worker_id"], ended["processed_by_worker_name"]) == (None, "reporter")


async def test_a_completion_and_the_release_of_its_expired_claim_have_one_winner(studio, settled, note):
    for number in range(5):
        video = await studio.upload(note, f"video {number}")
        hand = await settled.hire(f"hand {number}")
        job = await hand.claim()
        await settled.clock.advance(CLAIM_SECONDS + 1)
        await settled.server_beat()
        completed, _ = await asyncio.gather(
            hand.http.post("complete", json={"job_id": job["job_id"]}), settled.check()
        )
        ended = job_of(studio.product, video)["status"]
        assert (completed.status_code, ended) in {(200, "succeeded"), (409, "queued")}
        if ended == "queued":
            await hand.done(await hand.claim())


async def test_a_report_waits_for_a_transaction_that_has_locked_the_job(studio, fleet, note, monkeypatch):
    product, video, hand = studio.product, await studio.upload(note), await fleet.hire()
    job = await hand.claim()
    refused, free = asyncio.Event(), asyncio.Event()

    async def pause(_):
        refused.set()
        await free.wait()

    monkeypatch.setattr(worker_jobs, "asyncio", SimpleNamespace(sleep=pause))
    lock = "select from posthouse.running where id = %s for update"
    async with fleet.locked(lock, job["job_id"]) as locking:
        reported = asyncio.create_task(hand.report(job, progress_percent=30))
        await asyncio.wait_for(refused.wait(), WAIT_SECONDS)
        await locking.commit()
    free.set()
    assert await reported == {"busy": False}
    assert job_of(product, video)["progress_percent"] == 30
    async with fleet.locked(lock, job["job_id"]) as locking:
        completed = asyncio.create_task(hand.done(job))
        await product.until(lambda: product.rows(LOCKED), "the completion at the job's row")
        await locking.commit()
    await completed
    assert job_of(product, video)["status"] == "succeeded"


async def test_a_failed_job_is_retried_at_once_up_to_its_attempts(studio, fleet, note):
    video, hand = await studio.upload(note), await fleet.hire()
    for attempt in (1, 2, 3):
        job = await hand.claim()
        assert job["attempt"] == attempt
        await hand.fail(job)
        await fleet.check()
        row = job_of(studio.product, video)
        assert (row["attempt_number"], row["max_attempts"]) == (attempt, 3)
        assert row["last_error"] == "Error: no codec"
        assert fleet.status(hand) == "idle"
        assert await status_of(studio, video) == ("pending" if attempt < 3 else "failed")
    assert await hand.claim() is None
    assert row["processed_by_worker_id"] is not None


async def test_an_offline_worker_returns_with_its_next_heartbeat(studio, settled, note):
    hand = await settled.hire()
    await settled.wait(OFFLINE_SECONDS + 60)
    assert settled.status(hand) == "offline"
    await hand.beat()
    assert settled.status(hand) == "idle"
    await studio.upload(note)
    assert await hand.claim() is not None
    assert settled.status(hand) == "busy"
    await settled.check()
    changes = studio.product.rows("select change from posthouse.worker_changes order by id")
    assert [row["change"] for row in changes] == ["started", "lost", "back"]
