"""The job contract: what the view vision.jobs shows, and when jobs start and are retried."""

import json
import re
from uuid import UUID, uuid4

import psycopg
import pytest

from posthouse import testing
from vision import options, paths
from vision.handlers import app, clip_generate, ocr, sample, scan, segment_index, transcode
from vision.options import ReadingOptions
from vision.storage import storage

STAGES = [transcode, sample, ocr, segment_index]


async def registered(client, **body):
    answer = await client.post("/vision/videos", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def jobs(running_app):
    return running_app.rows("select * from vision.jobs order by created_at, id")


async def test_an_upload_starts_its_pipeline_at_once_and_only_once(running_app, folder, film):
    client = await running_app.client_for("tenant-admin", "acme")
    new = await registered(client)
    video_id, path = new["video_id"], f"videos/original/{new['video_id']}/master.mp4"
    assert new["s3_original_path"] == path
    put = await client.put(f"/vision/videos/{video_id}/original", content=film.read_bytes())
    assert put.status_code == 204, put.text
    (job,) = jobs(running_app)
    assert (job["job_type"], job["status"], job["retry_count"]) == ("transcode", "queued", 0)
    assert job["payload"] == {"video_id": video_id, "s3_original_path": path}
    assert (await client.get(f"/vision/videos/{video_id}")).json()["status"] == "processing"
    again = await client.put(f"/vision/videos/{video_id}/original", content=b"x")
    assert again.status_code == 409
    found = await scan.enqueue(settled=0)
    await testing.drain(app, queues=(scan.definition.queue,))
    assert await found.wait("60s") == {"found": 1, "new": 0}
    assert len(jobs(running_app)) == 1


async def test_an_upload_to_the_bucket_starts_when_it_is_reported(running_app, folder, film):
    client = await running_app.client_for("super-admin")
    new = (await client.post("/vision/videos", json={}, params={"tenant": "acme"})).json()
    where = f"/vision/videos/{new['video_id']}/uploaded"
    missing = await client.post(where)
    assert (missing.status_code, "upload the file first" in missing.json()["detail"]) == (409, True)
    folder.put(new["s3_original_path"], film)
    stranger = await running_app.client_for("tenant-admin", "globex")
    assert (await stranger.post(where)).status_code == 404
    for _ in range(2):
        answer = await client.post(where)
        assert (answer.status_code, answer.json()["status"]) == (202, "processing")
    ((job_type, team),) = {(job["job_type"], job["team_id"]) for job in jobs(running_app)}
    assert (job_type, team, len(jobs(running_app))) == ("transcode", "acme", 1)


async def test_the_view_of_jobs_has_the_words_of_the_contract(running_app, folder, monkeypatch):
    monkeypatch.setenv("VISION_PIPELINE_LOGS", "true")
    client = await running_app.client_for("tenant-admin", "acme")
    video_id = (await registered(client))["video_id"]
    payload = {"video_id": video_id, "s3_original_path": paths.original(UUID(video_id))}
    asked = await transcode.using(tenant="acme", subject=video_id).enqueue(**payload)
    await segment_index.using(tenant="acme", subject=video_id, delay="1h").enqueue(video_id=video_id)
    await testing.drain(app, queues=("vision.transcode",))
    failed, waiting = jobs(running_app)
    assert (failed["status"], waiting["status"]) == ("failed", "queued")
    assert failed["payload"].keys() == {"error", "original_payload"}
    assert failed["payload"]["original_payload"] == payload
    error = failed["payload"]["error"]
    assert error.pop("message") == f"Original video not found at {payload['s3_original_path']}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", error.pop("timestamp"))
    assert error == {"type": "NotStored", "retry_count": 0}
    assert (waiting["payload"], waiting["job_type"]) == ({"video_id": video_id}, "segment_index")
    listed = (await client.get(f"/vision/videos/{video_id}/jobs")).json()
    assert [(job["job_type"], job["status"]) for job in listed] == [
        ("segment_index", "queued"),
        ("transcode", "failed"),
    ]
    account = json.loads(storage().read(f"logs/pipeline/{asked.id}.json"))
    assert account["attempts"][0].pop("error")["type"] == "NotStored"
    assert (account["job_id"], account["video_id"], account["job_type"], account["status"]) == (
        str(asked.id), video_id, "transcode", "failed",
    )  # fmt: skip
    stranger = await running_app.client_for("tenant-viewer", "globex")
    assert (await stranger.get(f"/vision/videos/{video_id}/jobs")).status_code == 404
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute("set local role posthouse_tenant")
        db.execute("set local posthouse.tenant = 'globex'")
        assert db.execute("select count(*) from vision.jobs").fetchone() == (0,)
        assert db.execute("select vision.start_processing(%s)", (video_id,)).fetchone() == (False,)


async def test_a_passing_error_is_retried_after_1_5_and_15_minutes_and_then_stays_failed(
    running_app, folder, monkeypatch
):
    def unreachable(_):
        raise ConnectionError("the storage is not reachable")

    client = await running_app.client_for("tenant-admin", "acme")
    video_id = (await registered(client))["video_id"]
    monkeypatch.setattr("vision.handlers.extract_entities", unreachable)
    queue = {"queues": (segment_index.definition.queue,)}
    handle = await segment_index.using(tenant="acme").enqueue(video_id=video_id)
    async with testing.clock(app) as clock:
        for retry, minutes in enumerate((1, 5, 15), 1):
            await testing.drain(app, **queue)
            (job,) = jobs(running_app)
            assert (job["status"], job["retry_count"], job["max_retries"]) == ("queued", retry, 3)
            (due,) = running_app.rows("select due_at - posthouse.now() as wait from posthouse.waiting")
            assert due["wait"].total_seconds() == pytest.approx(60 * minutes, rel=0.21)
            await clock.advance(f"{1.21 * minutes}m")
            await running_app.run_keeper_once()
        await testing.drain(app, **queue)
    (job,) = jobs(running_app)
    assert (job["status"], job["retry_count"]) == ("failed", 3)
    assert job["payload"]["error"]["type"] == "ConnectionError"
    monkeypatch.undo()
    again = await client.post(f"/api/v1/jobs/{handle.id}/retry")
    assert again.status_code == 200, again.text
    (job,) = jobs(running_app)
    assert (job["status"], job["payload"]) == ("queued", {"video_id": video_id})


async def test_one_job_of_each_stage_may_be_active_per_video_and_any_number_of_clips(running_app, folder):
    client = await running_app.client_for("tenant-admin", "acme")
    video_id = (await registered(client))["video_id"]
    for number in range(2):
        clip = {"video_id": video_id, "t_start": number, "t_end": 5}
        assert (await client.post("/vision/clips", json=clip)).status_code == 202
        assert (await client.post("/vision/clips", json={**clip, "clip_id": "same"})).status_code == 202
        payload = {"video_id": video_id, "s3_original_path": paths.original(UUID(video_id))}
        options = {"tenant": "acme", "dedupe_key": f"vision.transcode:{video_id}"}
        await transcode.using(**options).enqueue(**payload)
    counted = [job["job_type"] for job in jobs(running_app)]
    assert (counted.count("transcode"), counted.count("clip_generate")) == (1, 3)
    limited = {stage.kind for stage in STAGES if stage.definition.limit_by == "video_id"}
    assert limited == {"vision.transcode", "vision.sample", "vision.segment_index"}


def test_the_defaults_are_those_of_the_contract():
    wanted = ReadingOptions()
    assert (wanted.target_fps, wanted.dedupe_threshold) == (10, 0.95)
    assert (wanted.languages, wanted.min_confidence) == (["eng"], 0.6)
    assert options.CLIP_LIFE.days == 30
    for stage in (*STAGES, clip_generate):
        assert stage.definition.policy.retry.ladder == (60, 300, 900)
        assert (stage.definition.max_attempts, stage.definition.queue) == (4, stage.kind)


async def test_a_payload_that_does_not_fit_fails_without_a_retry(running_app):
    wrong = {segment_index: {"video_id": "no uuid"}, ocr: {"video_id": str(uuid4()), "min_confidence": 2}}
    with psycopg.connect(running_app.settings.database_url) as db:
        for kind, payload in wrong.items():
            db.execute(
                "select posthouse.enqueue(%s, %s, queue => %s)", (kind.kind, json.dumps(payload), kind.kind)
            )
    await testing.drain(app, queues=tuple(kind.kind for kind in wrong))
    found = [
        (job["status"], job["retry_count"], job["payload"]["original_payload"]) for job in jobs(running_app)
    ]
    assert found == [("failed", 0, payload) for payload in wrong.values()]
