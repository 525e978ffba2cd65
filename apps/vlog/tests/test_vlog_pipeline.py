"""From upload to a ladder that plays, by workers over HTTP that have neither database nor disk in common."""

from __future__ import annotations

import json
import os
import random
import stat

import pytest
from vlog_kit import probe_picture

from posthouse_media import ffmpeg_path
from support import forkserver

QUICK = {
    "POSTHOUSE_PROCESS_SLOTS": "1",
    "POSTHOUSE_LEASE_SECONDS": "6",  # that a worker on a busy machine is not taken for dead
    "VLOG_PARALLEL_QUALITIES": "1",
}
REMOTE = ("--queue", "vlog")
BESIDE = ("--queue", "vlog-library", "--no-keeper")
NO_SPACE = "ffmpeg failed with exit code 1: no space left"
STAGES = ("when it was claimed", "in the first quality", "in the second quality", "when it is published")


@pytest.mark.soak
async def test_a_worker_is_killed_in_any_stage_and_nothing_is_lost_or_doubled(vlog_client, clip, library):
    stage = random.choice(STAGES)
    print(f"killed {stage}")  # noqa: T201 - shown if it fails
    running_app = vlog_client.running_app
    video = await vlog_client.upload(clip)
    assert (video["status"], video["playable"], video["slug"]) == ("pending", False, "a-day-out")
    remote = await running_app.worker(*REMOTE, remote=True, **QUICK)
    beside = await running_app.worker(*BESIDE, **QUICK)
    await running_app.until(lambda: reached(vlog_client, video, stage), stage)
    done = [part for part in vlog_client.parts(video) if part[1] == "completed"]
    if stage == STAGES[-1]:
        running_app.kill(beside)
        await running_app.worker(*BESIDE, **QUICK)
    else:
        running_app.kill(remote)
        await running_app.worker(*REMOTE, remote=True, **QUICK)
    ready = await vlog_client.until(video, "ready", "failed")
    assert (ready["status"], ready["error_message"]) == ("ready", None), running_app.logs()
    assert set(done) <= set(vlog_client.parts(video)), "what was done is not done again"
    assert running_app.statuses() == {("vlog.transcode", "succeeded"): 1, ("vlog.publish", "succeeded"): 1}
    assert [item["quality"] for item in ready["qualities"]] == ["360p", "240p", "144p"]
    assert [file.name for file in (library / "a-day-out").iterdir()] == [ready["version"]]
    for quality in ready["qualities"]:
        picture = probe_picture(library / "a-day-out" / ready["version"] / quality["quality"] / "index.m3u8")
        assert picture.height == quality["height"]
        assert abs(picture.seconds - 7) < 0.3
    assert (vlog_client.parts(video)[0][:2], len(vlog_client.parts(video))) == (("480p", "skipped"), 4)
    master = await vlog_client.client.get(ready["playlist"])
    assert master.text.count("#EXT-X-STREAM-INF") == 3
    picture = await vlog_client.client.get(ready["playlist"].replace("master.m3u8", "thumbnail.jpg"))
    assert picture.content.startswith(b"\xff\xd8")


def reached(vlog_client, video, stage):
    if stage == STAGES[-1]:
        return (
            vlog_client.running_app.statuses()["vlog.publish", "succeeded"]
            or (vlog_client.running_app.statuses()["vlog.publish", "running"])
        )
    parts = {name: status for name, status, _ in vlog_client.parts(video)}
    if stage == STAGES[0]:
        return vlog_client.running_app.statuses()["vlog.transcode", "running"]
    first, second = parts.get("144p"), parts.get("240p")
    return first == "completed" and second != "pending" if stage == STAGES[2] else first in {
        "in_progress", "completed",
    }  # fmt: skip


@pytest.fixture
def broken_at(tmp_path, monkeypatch):
    """An ffmpeg that cannot make some qualities while a file says so."""
    folder, says = tmp_path / "bin", tmp_path / "broken"
    folder.mkdir()
    real = ffmpeg_path()
    script = folder / "ffmpeg"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *"/$(cat {says} 2>/dev/null || echo none)/"*) '
        f'echo "no space left" >&2; exit 1;; esac\nexec {real} "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return says


async def test_10_a_failed_quality_leaves_the_others_alone_and_only_it_is_made_again(
    vlog_client, clip, broken_at, local_worker
):
    broken_at.write_text("240p")
    video = await vlog_client.upload(clip)
    failed = await vlog_client.until(video, "ready", "failed")
    assert (failed["status"], failed["playable"]) == ("failed", False)
    assert failed["error_message"] == NO_SPACE
    made = [("360p", "completed", 1), ("240p", "failed", 3), ("144p", "completed", 1)]
    assert vlog_client.parts(video)[1:] == made
    broken_at.unlink()
    again = await vlog_client.client.post(f"/api/v1/jobs/{video['job_id']}/retry")
    assert again.status_code == 200, again.text
    ready = await vlog_client.until(video, "ready", "failed")
    assert ready["status"] == "ready"
    (redone,) = vlog_client.running_app.rows(
        "select array_agg(name) as names from posthouse.parts where generation = 2"
    )
    assert redone["names"] == ["240p"]


async def test_a_failed_quality_that_is_not_critical_is_left_out(
    vlog_client, clip, broken_at, local_worker, monkeypatch
):
    monkeypatch.setenv("VLOG_CRITICAL_QUALITIES", "360p,144p")
    broken_at.write_text("240p")
    ready = await vlog_client.until(await vlog_client.upload(clip), "ready", "failed")
    assert (ready["status"], ready["error_message"]) == ("ready", None)
    assert [item["quality"] for item in ready["qualities"]] == ["360p", "144p"]
    assert vlog_client.parts(ready)[1:] == [
        ("360p", "completed", 1),
        ("240p", "failed", 1),
        ("144p", "completed", 1),
    ]
    failed = [item for item in (await vlog_client.progress(ready))["qualities"] if item["status"] == "failed"]
    assert [item["error_message"] for item in failed] == [NO_SPACE]
    assert "240p" not in (await vlog_client.client.get(ready["playlist"])).text
    await local_worker()
    broken_at.write_text("144p")
    failed = await vlog_client.until(await vlog_client.upload(clip, "critical"), "ready", "failed")
    assert failed["status"] == "failed"
    await vlog_client.client.delete(f"/api/videos/{failed['id']}")
    monkeypatch.setenv("VLOG_QUALITIES", "144p")
    monkeypatch.setenv("VLOG_CRITICAL_QUALITIES", "none")
    failed = await vlog_client.until(await vlog_client.upload(clip, "no quality at all"), "ready", "failed")
    assert failed["error_message"] == NO_SPACE


async def test_an_unknown_critical_quality_is_refused(vlog_client, clip, monkeypatch):
    monkeypatch.setenv("VLOG_CRITICAL_QUALITIES", "9p")
    named = {"title": "x", "filename": clip.name}
    answer = await vlog_client.client.post("/api/videos", params=named, content=clip.read_bytes())
    assert (answer.status_code, "9p" in answer.json()["detail"]) == (422, True)
    assert (await vlog_client.client.get("/api/videos")).json() == []


@pytest.mark.soak
async def test_a_video_stays_as_it_is_until_it_was_made_again(
    vlog_client, clip, library, monkeypatch, local_worker
):
    client, admin = vlog_client.client, await vlog_client.running_app.client_for("super-admin")
    video = await vlog_client.upload(clip)
    where, queue = f"/api/videos/{video['id']}", "/api/v1/admin/queues/vlog"
    await local_worker()
    await client.put(f"{where}/transcription", json={"content": "hello"})
    first = await vlog_client.video(video)
    assert (first["status"], first["transcription"]) == ("ready", "hello")

    await admin.post(f"{queue}/pause", json={})
    asked = {"qualities": ["240p"], "delete_transcription": True}
    waiting = (await client.post(f"{where}/retranscode", json=asked)).json()
    assert (waiting["status"], waiting["version"]) == ("ready", first["version"])
    assert waiting["retranscode_metadata"] == {
        "retranscode_all": False, "qualities_to_delete": ["240p"], "delete_transcription": True,
        "video_dir": str(library / "a-day-out"),
    }  # fmt: skip
    assert (await client.get(first["playlist"])).status_code == 200
    assert (await client.post(f"{where}/retranscode", json={})).status_code == 409
    await admin.post(f"{queue}/resume", json={})
    await local_worker()
    second = await vlog_client.video(video)
    assert (second["status"], second["transcription"]) == ("ready", None)
    assert second["retranscode_metadata"] is None
    assert [item["quality"] for item in second["qualities"]] == ["360p", "240p", "144p"]
    assert vlog_client.parts(video) == [("240p", "completed", 1)]
    assert [file.name for file in (library / "a-day-out").iterdir()] == [second["version"]]
    assert probe_picture(library / "a-day-out" / second["version"] / "360p" / "index.m3u8")

    monkeypatch.setenv("VLOG_QUALITIES", "144p")
    await client.post(f"{where}/retranscode", json={})
    await local_worker()
    third = await vlog_client.video(video)
    assert [item["quality"] for item in third["qualities"]] == ["144p"]
    assert (await client.get(second["playlist"])).status_code == 404

    assert (await client.delete(where)).status_code == 204
    await local_worker()
    assert (await client.get(where)).status_code == 404
    assert not (library / "a-day-out").exists()
    assert not list((library.parent / "uploads").iterdir())


@pytest.mark.soak
def test_the_demo_kills_a_worker_and_ends_ready(database, tmp_path):
    done = forkserver.run_posthouse(
        ["demo", "vlog", "--size", "4", "--json"], folder=tmp_path, seconds=150,
        env={**os.environ, "POSTHOUSE_DATABASE_URL": database, "POSTHOUSE_PROCESS_SLOTS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["attempts"]) == ("ready", 2)
    assert found["streams"] == ["1280x720", "640x360", "854x480", "4.0 s"]
    assert found["completed in attempt"] == {"360p": 1, "480p": 2, "720p": 2}
