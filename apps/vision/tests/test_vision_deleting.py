"""What is deleted is gone, what is replaced is read anew, and what was left behind is swept."""

import os
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from posthouse.testing import drain
from support import forkserver
from vision import paths
from vision.handlers import app, scan, sweep
from vision.sample_video import render_video
from vision.workspace import GRACE_SECONDS, PREFIX, remove_abandoned, workspace

MEDIA = ("poster.jpg", "0.jpg", "hls/index.m3u8", "hls/segment_00000.ts", "clips/c.mp4")
HOLDER = """
import time
from vision.workspace import workspace
with workspace() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def other_film(tmp_path_factory):
    path = tmp_path_factory.mktemp("other") / "other.mp4"
    render_video(path, [["Another caption"]], seconds=0.5, size=(320, 180))
    return path


def files(storage):
    return sorted(
        str(file.relative_to(storage.folder)) for file in storage.folder.rglob("*") if file.is_file()
    )


async def test_a_deleted_video_leaves_no_row_file_or_payload(
    running_app, folder, send, other_film, monkeypatch
):
    monkeypatch.setenv("VISION_PIPELINE_LOGS", "true")
    client, stranger = (
        await running_app.client_for("tenant-admin", "acme"),
        await running_app.client_for("tenant-admin", "globex"),
    )
    before = files(folder)
    video_id = await send(client, other_film)
    clip = {"video_id": video_id, "t_start": 0, "t_end": 100, "clip_id": "c"}
    assert (await client.post("/vision/clips", json=clip)).status_code == 202
    await drain(app)
    shared = (await client.post(f"/vision/videos/{video_id}/links", json={"seconds": 3600})).json()
    urls = [f"/vision/videos/{video_id}{path}" for path in ("", "/segments", "/jobs")]
    for base in (shared["media"], f"/vision/media/session/{video_id}"):
        urls += [f"{base}/{path}" for path in MEDIA]
    urls.append(f"/vision/clips/{video_id}/c")
    for url in urls:
        assert (await client.get(url)).status_code == 200, url
    assert (await stranger.delete(f"/vision/videos/{video_id}")).status_code == 404
    assert (await client.delete(f"/vision/videos/{video_id}")).status_code == 204
    assert (await client.delete(f"/vision/videos/{video_id}")).status_code == 404
    found = await scan.enqueue(settled=0)
    await drain(app)
    assert (await found.wait("60s"))["new"] == 0, "the scanner takes it for a new video"
    for url in urls:
        assert (await client.get(url)).status_code == 404, url
    assert (await client.get("/vision/search", params={"q": "another"})).json() == []
    assert files(folder) == before
    for table in ("videos", "segments", "entities", "clips", "search_materialized"):
        assert running_app.rows(f"select 1 from vision.{table}") == [], table
    kept = running_app.rows("select payload, result from posthouse.jobs where subject = %s", video_id)
    assert {(str(row["payload"]), row["result"]) for row in kept} == {("{}", None)}
    await sweep.enqueue()
    await drain(app)
    assert running_app.rows("select 1 from vision.deleted_videos") == []


async def test_a_failed_video_can_be_uploaded_again_and_a_ready_one_replaced(
    running_app, folder, send, film, other_film
):
    client = await running_app.client_for("tenant-admin", "acme")
    (running_app.folder / "broken.mp4").write_bytes(b"this is no video" * 100)
    video_id = await send(client, running_app.folder / "broken.mp4")
    upload, page = f"/vision/videos/{video_id}/original", f"/vision/videos/{video_id}"
    busy = await client.put(upload, content=b"x")
    assert (busy.status_code, "is being processed" in busy.json()["detail"]) == (409, True)
    await drain(app)
    video = (await client.get(page)).json()
    assert (video["status"], video["stage"]) == ("failed", "vision.transcode")
    for content, text in ((film, "relay"), (other_film, "another")):
        empty = await client.put(upload, content=b"")
        assert (empty.status_code, empty.json()["detail"]) == (422, "the file is empty; upload a video file")
        assert (await client.put(upload, content=content.read_bytes())).status_code == 204
        await drain(app)
        assert (await client.get(page)).json()["status"] == "ready"
        assert len((await client.get("/vision/search", params={"q": text})).json()) == 1
    assert (await client.get("/vision/search", params={"q": "relay"})).json() == []
    assert (await client.get(page)).json()["duration_ms"] == 500


async def test_files_without_a_video_and_frames_of_ready_ones_are_swept(
    running_app, folder, send, other_film
):
    client = await running_app.client_for("tenant-admin", "acme")
    video_id, unknown = UUID(await send(client, other_film)), uuid4()
    await drain(app)
    stray = [paths.frame(unknown, 0), f"{paths.proxy(unknown)}/segment_00000.ts", paths.frame(video_id, 7)]
    new, original = paths.frame(uuid4(), 0), paths.original(uuid4())  # the scan may register the original
    for path in (*stray, new, original):
        folder.put(path, b"left behind")
    long_ago = time.time() - timedelta(days=2).total_seconds()
    for file in folder.folder.rglob("*"):
        if file.is_file() and file != folder.folder / new:
            os.utime(file, (long_ago, long_ago))
    await sweep.enqueue()
    await drain(app)
    assert not any(folder.exists(path) for path in stray)
    assert all(
        folder.exists(path) for path in (new, original, paths.playlist(video_id), paths.poster(video_id))
    )


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_running_one_stays():
    with forkserver.start_python(["-c", HOLDER], stdout=subprocess.PIPE) as process:
        left = Path(process.stdout.readline().strip())
        assert left.parent.name.startswith(PREFIX)
        long_ago = time.time() - 2 * GRACE_SECONDS
        os.utime(left.parent, (long_ago, long_ago))
        remove_abandoned()
        assert left.is_dir()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with workspace() as own:
        assert own.is_dir()
        assert not left.exists()
    assert not own.exists()
