"""What goes wrong is said, and not tried again where that would not help."""

from uuid import uuid4

import pytest

import posthouse
from posthouse.testing import assert_enqueued, drain
from vision import paths
from vision.handlers import app, clip_generate, ocr, sample, scan, segment_index, transcode


def errors_of_failed(product):
    rows = product.rows("select kind, attempt_count, error from posthouse.jobs where status = 'failed'")
    return {
        row["kind"]: (row["error"]["type"], row["attempt_count"], row["error"]["message"]) for row in rows
    }


async def registered(product, tenant="acme"):
    client = await product.as_("tenant-admin", tenant)
    return client, (await client.post("/vision/videos", json={})).json()["video_id"]


async def test_jobs_that_cannot_succeed_fail_at_once_and_say_why(product, folder):
    _, video_id = await registered(product)
    path = paths.original(video_id)
    foreign = f"frames/{uuid4()}/0.jpg"
    other = "videos/original/other/master.mp4"
    mine = {"tenant": "acme"}
    await transcode.using(**mine).enqueue(video_id=video_id, s3_original_path=path)
    await sample.using(tenant="globex").enqueue(video_id=video_id, s3_original_path=path)
    await ocr.using(**mine).enqueue(video_id=video_id, frame_paths=[foreign])
    await clip_generate.using(**mine).enqueue(
        video_id=video_id,
        clip_id="x",
        t_start=0,
        t_end=1,
        s3_original_path="videos/original/other/master.mp4",
    )
    await segment_index.enqueue(video_id=video_id)
    await drain(app)
    no_video = f"there is no video {video_id}"
    assert errors_of_failed(product) == {
        "vision.transcode": ("vision.storage.S3ObjectNotFound", 1, f"Original video not found at {path}"),
        "vision.sample": ("vision.handlers.VideoNotFound", 1, no_video),
        "vision.ocr": ("vision.regions.ForeignFrame", 1, f"{foreign} is not a frame of video {video_id}"),
        "vision.clip_generate": (
            "vision.handlers.VideoNotFound", 1, f"{other} is not the original of video {video_id}",
        ),
        "vision.segment_index": ("vision.handlers.VideoNotFound", 1, no_video),
    }  # fmt: skip


async def test_files_that_are_no_videos_and_clips_of_nothing_fail_at_once(product, folder, film):
    (client, video_id), (_, other) = await registered(product), await registered(product)
    folder.put(paths.original(video_id), b"no video at all" * 99)
    folder.put(paths.original(other), film)
    await transcode.using(tenant="acme", subject=video_id).enqueue(
        video_id=video_id, s3_original_path=paths.original(video_id)
    )
    await clip_generate.using(tenant="acme").enqueue(
        video_id=other, clip_id="late", t_start=9000, t_end=9500, s3_original_path=paths.original(other)
    )
    await ocr.using(tenant="acme").enqueue(video_id=other, frame_paths=[], languages=["rus"])
    await drain(app)
    found = errors_of_failed(product)
    assert found["vision.transcode"][:2] == ("vision.media.BadVideo", 1)
    assert found["vision.clip_generate"] == (
        "vision.publishing.EmptyClip", 1, "the video has nothing between 9000 and 9500 ms",
    )  # fmt: skip
    assert found["vision.ocr"][2].startswith("cannot read rus; it can be")
    video = (await client.get(f"/vision/videos/{video_id}")).json()
    assert (video["status"], video["stage"]) == ("failed", "vision.transcode")
    assert "no video can be read" in video["error"]


NO_VIDEO = str(uuid4())
WRONG = [
    ("/vision/videos", {"options": {"target_fps": 0}}, "target_fps"),
    ("/vision/videos", {"options": {"dedupe_threshold": 1.5}}, "dedupe_threshold"),
    ("/vision/videos", {"options": {"languages": ["tlh"]}}, "cannot read tlh"),
    ("/vision/videos", {"options": {"speed": 1}}, "speed"),
    ("/vision/clips", {"video_id": NO_VIDEO, "t_start": 5, "t_end": 1}, "t_end is before t_start"),
    ("/vision/clips", {"video_id": NO_VIDEO, "t_start": -5, "t_end": 1}, "t_start"),
    ("/vision/clips", {"video_id": NO_VIDEO, "t_start": 0, "t_end": 1, "clip_id": "../x"}, "clip_id"),
]


async def test_wrong_requests_are_refused(product, folder):
    client, video_id = await registered(product)
    for path, body, why in WRONG:
        answer = await client.post(path, json=body)
        assert answer.status_code == 422, (path, body)
        assert why in answer.json()["detail"]
    for path in (f"videos/{NO_VIDEO}", f"clips/{video_id}/none", f"videos/{video_id}/poster.jpg"):
        assert (await client.get(f"/vision/{path}")).status_code == 404
    payload = {"video_id": video_id, "s3_original_path": "x", "target_fps": -1}
    with pytest.raises(posthouse.PosthouseError, match="target_fps: Input should be greater than 0"):
        await sample.enqueue(**payload)


async def test_the_scanner_takes_each_original_once_and_for_whom_it_was_registered(product, folder):
    _, video_id = await registered(product, "globex")
    stray = uuid4()
    for found in (video_id, stray):
        folder.put(paths.original(found), b"a video")
    folder.put("videos/original/notes.txt", b"not one")
    folder.put(f"videos/original/{uuid4()}/other.mp4", b"nor this")
    young = await scan.enqueue(settled=3600)
    first = await scan.enqueue(settled=0)
    second = await scan.enqueue(settled=0)
    await drain(app, queues=(scan.definition.queue,))
    assert await young.wait("5s") == {"found": 0, "new": 0}
    assert sorted([(await first.wait("5s"))["new"], (await second.wait("5s"))["new"]]) == [0, 2]
    for found, team in ((video_id, "globex"), (str(stray), "default")):
        await assert_enqueued(
            app,
            "vision.transcode",
            {"video_id": str(found), "s3_original_path": paths.original(found)},
            tenant_id=team,
            subject=str(found),
        )
