"""The edge cases and races of a fleet that works over HTTP, numbered as they were handed down.

Workers here are a few calls to /api/worker; how far time moves is said to the database's clock.
"""

from __future__ import annotations

import asyncio

import httpx
import psycopg
import pytest
from vlog_kit import SECRET

from posthouse import testing

BOTH = "select v.status, j.status from vlog.videos as v join posthouse.jobs as j on j.id = v.job_id"
AGREEING = {
    ("pending", "queued"),
    ("processing", "running"),
    ("processing", "succeeded"),  # what was made is being looked at
    ("ready", "succeeded"),
    ("failed", "failed"),
    ("failed", "dead_letter"),
    ("failed", "canceled"),
}


class Hand:
    """A worker that keeps no tokens."""

    def __init__(self, http, worker_id):
        self.http = http
        self.id = worker_id

    async def ask(self, path, expected=200, /, **body):
        answer = await self.http.post(path, json=body)
        assert answer.status_code == expected, answer.text
        return answer.json()

    async def claim(self):
        return (await self.ask("claim"))["job"]

    async def beat(self):
        return await self.ask("heartbeat", status="idle")

    async def done(self, job):
        return await self.ask("complete", job_id=job["job_id"])


@pytest.fixture
async def hire(product):
    clients = []

    async def hired(name="hand", **capabilities):
        http = httpx.AsyncClient(base_url=f"{product.url}/api/worker/", timeout=30)
        clients.append(http)
        new = {"worker_name": name, "capabilities": capabilities}
        new |= {"queues": ["vlog"], "kinds": ["vlog.transcode"]}
        answer = await http.post("register", json=new, headers={"X-Admin-Secret": SECRET})
        assert answer.status_code == 201, answer.text
        http.headers["Authorization"] = f"Bearer {answer.json()['api_key']}"
        return Hand(http, answer.json()["worker_id"])

    yield hired
    await asyncio.gather(*(http.aclose() for http in clients))


@pytest.fixture
async def clock(product):
    async with testing.clock(product.app) as clock:
        yield clock


@pytest.fixture
def note(tmp_path):
    """Something that is called a video, for workers that do not look at it."""
    file = tmp_path / "note.mp4"
    file.write_bytes(b"moving pictures")
    return file


def job_of(product, video):
    (row,) = product.rows("select * from posthouse.jobs where id = %s", video["job_id"])
    return row


def worker_of(product, hand):
    (row,) = product.rows("select stopped_at from posthouse.workers where id = %s", hand.id)
    return row


async def test_1_two_workers_never_claim_the_same_job(studio, hire, note):
    videos = [await studio.upload(note, f"video {number}") for number in range(3)]
    hands = [await hire(f"hand {number}") for number in range(5)]
    claimed = await asyncio.gather(*(hand.claim() for hand in hands))
    ids = [job["job_id"] for job in claimed if job]
    assert sorted(ids) == sorted(video["job_id"] for video in videos)
    assert {(await studio.video(video))["status"] for video in videos} == {"processing"}


async def test_2_the_job_of_a_crashed_worker_runs_again_and_what_was_done_is_kept(studio, hire, note, clock):
    video = await studio.upload(note)
    first, second = await hire("first"), await hire("second")
    job = await first.claim()
    done = [{"name": "144p", "status": "completed", "progress_percent": 100}]
    await first.ask("progress", job_id=job["job_id"], current_step="transcode", quality_progress=done)
    await clock.advance("29m")
    await studio.product.keep()
    assert (await studio.video(video))["status"] == "processing"
    await clock.advance("2m")
    await studio.product.keep()
    assert (await studio.video(video))["status"] == "pending"
    again = await second.claim()
    assert (again["job_id"], again["attempt"]) == (job["job_id"], 2)
    assert studio.parts(video) == [("144p", "completed", 1)]


async def test_3_a_silent_worker_keeps_its_job_while_its_claim_is_good(studio, hire, note, clock):
    video = await studio.upload(note)
    hand = await hire()
    job = await hand.claim()
    await clock.advance("10m")  # twice as long as it takes to be called offline
    await studio.product.keep()
    assert job_of(studio.product, video)["status"] == "running"
    assert worker_of(studio.product, hand)["stopped_at"] is None
    await hand.done(job)
    assert job_of(studio.product, video)["status"] == "succeeded"


async def test_4_a_heartbeat_during_the_check_saves_the_worker(studio, hire, clock):
    product, hand = studio.product, await hire()
    await hand.beat()
    await clock.advance("6m")
    async with await psycopg.AsyncConnection.connect(product.settings.database_url) as beating:
        await beating.execute("select posthouse.heartbeat(%s, '{}', '{}', '30 min')", (hand.id,))
        check = asyncio.create_task(product.keep())
        await product.until(lambda: waiting_for_locks(product), "the check at the worker's row")
        await beating.commit()
    await check
    assert worker_of(product, hand)["stopped_at"] is None


def waiting_for_locks(product):
    return product.rows(
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    )


async def test_5_gpu_workers_go_first_but_not_for_ever(studio, hire, note, clock):
    cpu, gpu = await hire("cpu"), await hire("gpu", gpu=True)
    await gpu.beat()
    first, second = [await studio.upload(note, title) for title in ("first", "second")]
    assert await cpu.claim() is None
    assert (await gpu.claim())["job_id"] == first["job_id"]
    assert (await cpu.claim())["job_id"] == second["job_id"], "the GPU is busy"
    await studio.upload(note, "third")
    idle = await hire("idle gpu", gpu=True)
    await idle.beat()
    other = await hire("other cpu")
    assert await other.claim() is None
    await clock.advance("61s")
    assert (await other.claim()) is not None, "it had its chance"


async def test_6_a_restart_of_the_api_costs_no_job(studio, hire, note):
    product = studio.product
    video = await studio.upload(note)
    hand = await hire()
    job = await hand.claim()
    await product.restart_server()
    await product.keep()
    await hand.ask("progress", job_id=job["job_id"], progress_percent=50)
    await hand.done(job)
    row = job_of(product, video)
    assert (row["status"], row["attempt_count"]) == ("succeeded", 1)


async def test_7_who_completes_after_the_claim_expired_is_refused(studio, hire, note, clock):
    video = await studio.upload(note)
    late, prompt = await hire("late"), await hire("prompt")
    job = await late.claim()
    await clock.advance("31m")
    await studio.product.keep()
    again = await prompt.claim()
    refused = await late.ask("complete", 409, job_id=job["job_id"], result="late")
    assert refused["code"] == "lease_lost"
    assert (await late.ask("fail", 409, job_id=job["job_id"], error_message="x"))["code"] == "lease_lost"
    assert (await studio.video(video))["status"] == "processing"
    await prompt.ask("complete", job_id=again["job_id"], result="prompt")
    assert job_of(studio.product, video)["result"] == "prompt"


async def test_8_the_status_of_a_video_agrees_with_its_job_at_every_moment(studio, hire, note, clock):
    product = studio.product
    seen, over = set(), asyncio.Event()

    async def look():
        async with await psycopg.AsyncConnection.connect(
            product.settings.database_url, autocommit=True
        ) as db:
            while not over.is_set():
                found = await db.execute(BOTH)
                seen.update(await found.fetchall())

    looking = asyncio.create_task(look())
    for ending in ("crash", "failure", "exhaustion", "completion"):
        hand = await hire(ending)
        video = await studio.upload(note, ending)
        job = await hand.claim()
        if ending == "crash":
            await clock.advance("31m")
            await product.keep()
            await (await hire("rescuer")).claim()
        elif ending == "completion":
            await hand.done(job)
        while ending in {"failure", "exhaustion"} and job:
            retry = ending == "exhaustion"
            await hand.ask("fail", job_id=job["job_id"], error_message="no codec", retry=retry)
            await clock.advance("10m")
            await product.keep()
            job = await hand.claim()
        if ending in {"failure", "exhaustion"}:
            failed = await studio.video(video)
            assert (failed["status"], failed["error_message"]) == ("failed", "Error: no codec")
    over.set()
    await looking
    assert {"processing", "failed"} <= {status for status, _ in seen}
    assert seen <= AGREEING


async def test_9_a_worker_that_never_beat_is_found_offline(studio, hire, clock):
    hand = await hire()
    studio.product.rows("update posthouse.workers set heartbeat_at = null returning id")
    await clock.advance("6m")
    await studio.product.keep()
    assert worker_of(studio.product, hand)["stopped_at"] is not None
    await hand.beat()
    assert worker_of(studio.product, hand)["stopped_at"] is None
