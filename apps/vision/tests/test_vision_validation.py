"""What goes wrong is said, and not tried again where that would not help."""

from uuid import uuid4

import pytest

import posthouse
from posthouse.testing import assert_enqueued, drain
from vision import paths
from vision.bundled import LANGUAGES
from vision.handlers import app, clip_generate, ocr, sample, scan, segment_index, transcode
from vision.ocr import TESSERACT


async def registered(running_app, tenant="acme"):
    client = await running_app.client_for("tenant-admin", tenant)
    return client, (await client.post("/vision/videos", json={})).json()["video_id"]


async def test_jobs_that_cannot_succeed_fail_at_once_and_say_why(running_app, folder, film):
    (client, video_id), (_, filmed) = await registered(running_app), await registered(running_app)
    folder.put(paths.original(filmed), film)
    await _enqueue_hopeless(video_id, filmed)
    await drain(app)
    path, video, readable = (
        paths.original(video_id),
        f"video {video_id}",
        ", ".join(sorted(LANGUAGES | TESSERACT)),
    )
    no_video = f"{video} does not exist"
    assert errors(running_app) == {
        "vision.transcode": ("NotStored", f"Original video not found at {path}"),
        "vision.sample": ("VideoNotFound", no_video),
        "vision.ocr of it": ("WrongFrame", f"frames/other/0.jpg is not a frame of {video}"),
        "vision.ocr of another": ("UnknownLanguage", f"unsupported language: tlh; supported: {readable}"),
        "vision.segment_index": ("VideoNotFound", no_video),
        "vision.clip_generate of it": ("VideoNotFound", f"videos/other is not the original of {video}"),
        "vision.clip_generate of another": (
            "EmptyClip", "the time range 9000 to 9500 ms is outside of the video"
        ),
    }  # fmt: skip
    video = (await client.get(f"/vision/videos/{video_id}")).json()
    assert (video["status"], video["stage"], video["stage_status"]) == (
        "failed",
        "vision.transcode",
        "failed",
    )
    assert video["error"] == f"Original video not found at {path}"


async def _enqueue_hopeless(video_id, filmed):
    """Of a video without an original, by a stranger, with what belongs to another, of what there is not."""
    of_it, of_another = {"tenant": "acme", "subject": "it"}, {"tenant": "acme", "subject": "another"}
    path, clip = paths.original(video_id), {"clip_id": "x", "t_start": 9000, "t_end": 9500}
    await transcode.using(tenant="acme", subject=video_id).enqueue(video_id=video_id, s3_original_path=path)
    await sample.using(tenant="globex").enqueue(video_id=video_id, s3_original_path=path)
    await segment_index.using(tenant="globex").enqueue(video_id=video_id)
    await ocr.using(**of_it).enqueue(video_id=video_id, frame_paths=["frames/other/0.jpg"])
    await ocr.using(**of_another).enqueue(video_id=filmed, languages=["tlh"])
    await clip_generate.using(**of_it).enqueue(video_id=video_id, s3_original_path="videos/other", **clip)
    await clip_generate.using(**of_another).enqueue(
        video_id=filmed, s3_original_path=paths.original(filmed), **clip
    )


def errors(running_app):
    rows = running_app.rows(
        "select kind, subject, status, attempt_count, error from posthouse.jobs where kind <> 'vision.scan'"
    )
    assert {(row["status"], row["attempt_count"]) for row in rows} == {("failed", 1)}
    named = {"it": " of it", "another": " of another"}
    return {
        row["kind"] + named.get(row["subject"], ""): (
            row["error"]["type"].rpartition(".")[2],
            row["error"]["message"],
        )
        for row in rows
    }


NO_VIDEO = str(uuid4())
WRONG = [
    ("/vision/videos", {"options": {"target_fps": 0}}, "target_fps"),
    ("/vision/videos", {"options": {"dedupe_threshold": 1.5}}, "dedupe_threshold"),
    ("/vision/videos", {"options": {"languages": ["tlh"]}}, "unsupported language: tlh"),
    ("/vision/videos", {"options": {"speed": 1}}, "speed"),
    (
        "/vision/clips",
        {"video_id": NO_VIDEO, "t_start": 5, "t_end": 1},
        "t_end (1) must not be before t_start (5)",
    ),
    ("/vision/clips", {"video_id": NO_VIDEO, "t_start": -5, "t_end": 1}, "t_start"),
    ("/vision/clips", {"video_id": NO_VIDEO, "t_start": 0, "t_end": 1, "clip_id": "../x"}, "clip_id"),
]


async def test_wrong_requests_are_refused(running_app, folder):
    client, video_id = await registered(running_app)
    for path, body, why in WRONG:
        answer = await client.post(path, json=body)
        assert answer.status_code == 422, (path, body)
        assert why in answer.json()["detail"]
    for path in (f"videos/{NO_VIDEO}", f"clips/{video_id}/none", f"media/session/{video_id}/poster.jpg"):
        assert (await client.get(f"/vision/{path}")).status_code == 404
    payload = {"video_id": video_id, "s3_original_path": "x", "target_fps": -1}
    with pytest.raises(posthouse.PosthouseError, match="target_fps: Input should be greater than 0"):
        await sample.enqueue(**payload)


async def test_the_scanner_takes_each_original_once_and_for_whom_it_was_registered(running_app, folder):
    _, video_id = await registered(running_app, "globex")
    stray = uuid4()
    for found in (video_id, stray):
        folder.put(paths.original(found), b"a video")
    folder.put("videos/original/notes.txt", b"not one")
    folder.put(f"videos/original/{uuid4()}/other.mp4", b"nor this")
    young = await scan.enqueue(settled=3600)
    first = await scan.enqueue(settled=0)
    second = await scan.enqueue(settled=0)
    await drain(app, queues=(scan.definition.queue,))
    assert await young.wait("60s") == {"found": 0, "new": 0}
    assert sorted([(await first.wait("60s"))["new"], (await second.wait("60s"))["new"]]) == [0, 2]
    for found, team in ((video_id, "globex"), (str(stray), "default")):
        await assert_enqueued(
            app,
            "vision.transcode",
            {"video_id": str(found), "s3_original_path": paths.original(found)},
            tenant_id=team,
            subject=str(found),
        )


ODD_BODIES = [
    b'{"title": "a\\u0000b"}',
    b'{"title": "\xff"}',
    b'{"title": "\\ud800"}',
    b"[" * 5000,
    b"null",
    b"7",
    b"{",
]


async def test_odd_bodies_are_refused(running_app):
    client = await running_app.client_for("tenant-admin", "acme")
    kind = {"Content-Type": "application/json"}
    for body in ODD_BODIES:
        answer = await client.post("/vision/videos", content=body, headers=kind)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), (body, answer.text)
    assert (await client.get("/vision/search", params={"q": "a\x00b"})).status_code == 422
    assert running_app.rows("select * from vision.videos") == []
