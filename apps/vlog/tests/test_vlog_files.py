"""Files of videos: sent by range, uploaded in parts, and gone after a deletion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import httpx
import pytest

from posthouse import testing
from posthouse.testing import clock
from posthouse_media import ffmpeg_path
from vlog.handlers import sweep
from vlog.library import LOCK, Library, sweep_workspaces


@pytest.fixture(scope="session")
def short(clip, tmp_path_factory):
    """One second."""
    target = tmp_path_factory.mktemp("clips") / "short.mp4"
    subprocess.run([ffmpeg_path(), "-v", "error", "-i", clip, "-t", "1", "-c", "copy", target], check=True)
    return target


@pytest.fixture(autouse=True)
def _one_quality(monkeypatch):
    monkeypatch.setenv("VLOG_QUALITIES", "144p")


def files(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


async def test_media_are_sent_by_range(vlog_client, short):
    video = await vlog_client.upload(short)
    await testing.drain(vlog_client.running_app.app)
    ready = await vlog_client.video(video)
    segment = ready["playlist"].replace("master.m3u8", "144p/segment_00000.ts")
    whole = await vlog_client.client.get(segment)
    assert (whole.status_code, whole.headers["accept-ranges"]) == (200, "bytes")
    size = len(whole.content)
    part = await vlog_client.client.get(segment, headers={"Range": "bytes=188-375"})
    assert (part.status_code, part.headers["content-range"]) == (206, f"bytes 188-375/{size}")
    assert part.content == whole.content[188:376]
    head = await vlog_client.client.head(segment)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(size), b"")
    beyond = await vlog_client.client.get(segment, headers={"Range": f"bytes={size}-"})
    assert beyond.status_code == 416


async def test_the_master_playlist_has_codecs_and_measured_rates(vlog_client, short):
    video = await vlog_client.upload(short)
    await testing.drain(vlog_client.running_app.app)
    ready = await vlog_client.video(video)
    (quality,) = ready["qualities"]
    assert quality["codecs"].startswith("avc1.")
    assert quality["codecs"].endswith(",mp4a.40.2")
    assert quality["peak_bitrate"] >= quality["bitrate"] > 0
    text = (await vlog_client.client.get(ready["playlist"])).text
    rates = f"BANDWIDTH={quality['peak_bitrate']},AVERAGE-BANDWIDTH={quality['bitrate']}"
    shown = f'CODECS="{quality["codecs"]}",RESOLUTION=256x144,NAME="144p"'
    assert f"#EXT-X-STREAM-INF:{rates},{shown}" in text


@pytest.mark.parametrize("role", ["tenant-admin", "super-admin"])
async def test_a_deleted_video_is_gone_everywhere(vlog_client, short, library, role):
    root = library.parent
    before = files(root)
    video = await vlog_client.upload(short)
    job = f"/api/v1/jobs/{video['job_id']}/artifacts"
    source = f"{job}/{video['id']}.mp4"
    assert (await vlog_client.client.get(source)).status_code == 200
    await testing.drain(vlog_client.running_app.app)
    assert (await vlog_client.client.get(source)).status_code == 404, "the source is not kept twice"
    ready = await vlog_client.video(video)
    addresses = [ready["playlist"], ready["thumbnail"], f"/api/videos/{video['id']}", source]
    addresses += [ready["playlist"].replace("master.m3u8", "144p/segment_00000.ts")]
    client = vlog_client.client if role == "tenant-admin" else await vlog_client.running_app.client_for(role)
    assert (await client.delete(f"/api/videos/{video['id']}")).status_code == 204
    await testing.drain(vlog_client.running_app.app)
    assert [(await vlog_client.client.get(address)).status_code for address in addresses] == [404] * len(
        addresses
    )
    assert vlog_client.running_app.rows("select from vlog.uploads") == []
    left = [file for file in files(root) if "artifacts" not in file]
    assert [file for file in left if file not in before and not file.startswith("data/")] == []
    assert vlog_client.running_app.rows("select from posthouse.artifacts") == []


async def test_the_artifacts_of_a_failed_video_are_gone_after_its_deletion(vlog_client, tmp_path):
    fake = tmp_path / "fake.mp4"
    fake.write_bytes(b"this is a text")
    video = await vlog_client.upload(fake)
    await testing.drain(vlog_client.running_app.app)
    source = f"/api/v1/jobs/{video['job_id']}/artifacts/{video['id']}.mp4"
    assert (await vlog_client.client.get(source)).content == b"this is a text"
    deleted = await (await vlog_client.running_app.client_for("super-admin")).delete(
        f"/api/videos/{video['id']}"
    )
    assert deleted.status_code == 204, deleted.text
    assert (await vlog_client.client.get(source)).status_code == 404


async def test_an_upload_in_parts_continues_after_a_restart_of_the_server(vlog_client, short):
    content, client = short.read_bytes(), vlog_client.client
    new = {"title": "In parts", "filename": "short.mp4", "size": len(content)}
    made = await client.post("/api/videos/uploads", json=new)
    assert (made.status_code, made.json()["offset"]) == (201, 0)
    where = f"/api/videos/uploads/{made.json()['id']}"
    assert (await client.patch(where, params={"offset": 0}, content=content[:1000])).json()["offset"] == 1000
    await vlog_client.running_app.stop()
    await vlog_client.running_app.start()
    assert (await client.get(where)).json()["offset"] == 1000
    wrong = await client.patch(where, params={"offset": 5}, content=b"x")
    assert (wrong.status_code, "continue at offset 1000" in wrong.json()["detail"]) == (409, True)
    assert (await client.post(f"{where}/finish")).status_code == 409
    too_much = await client.patch(where, params={"offset": 1000}, content=content[1000:] + b"x")
    assert too_much.status_code == 413
    rest = (await client.get(where)).json()["offset"]
    await client.patch(where, params={"offset": rest}, content=content[rest:])
    video = (await client.post(f"{where}/finish")).json()
    assert (await client.post(f"{where}/finish")).json()["id"] == video["id"], "a lost reply can be repeated"
    assert (await client.patch(where, params={"offset": 0}, content=b"x")).status_code == 409
    await testing.drain(vlog_client.running_app.app)
    assert (await vlog_client.video(video))["status"] == "ready"


async def test_uploads_in_parts_are_checked_and_belong_to_their_tenant(vlog_client, library, monkeypatch):
    new = {"title": "x", "filename": "a.mp4", "size": 3}
    made = (await vlog_client.client.post("/api/videos/uploads", json=new)).json()
    where = f"/api/videos/uploads/{made['id']}"
    other = await vlog_client.running_app.client_for("tenant-admin", "globex")
    for method, path in (("GET", ""), ("PATCH", "?offset=0"), ("POST", "/finish"), ("DELETE", "")):
        assert (await other.request(method, where + path)).status_code == 404, method
    monkeypatch.setenv("VLOG_MAX_UPLOAD_BYTES", "2")
    for wrong, status in (({"size": 3}, 413), ({"size": 0}, 422), ({"filename": "a.txt"}, 415)):
        answer = await vlog_client.client.post("/api/videos/uploads", json={**new, **wrong})
        assert answer.status_code == status, answer.text
    assert (await vlog_client.client.delete(where)).status_code == 204
    assert (await vlog_client.client.get(where)).status_code == 404
    assert files(library.parent / "uploads") == []


async def test_abandoned_files_are_swept_and_used_ones_stay(vlog_client, library, short, monkeypatch):
    running_app, uploads = vlog_client.running_app, library.parent / "uploads"
    new = {"title": "x", "filename": "a.mp4", "size": 3}
    made = (await vlog_client.client.post("/api/videos/uploads", json=new)).json()
    video = await vlog_client.upload(short)
    (library.parent / "text.mp4").write_text("this is a text")
    failed = await vlog_client.upload(library.parent / "text.mp4")
    for folder in (library / video["slug"] / ".7-killed", library / "unknown"):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    (uploads / ".crashed.part").touch()
    os.utime(uploads / ".crashed.part", (0, 0))
    os.utime(uploads / f".{made['id']}.part", (0, 0))
    with Library(library.parent).build_output(video["slug"], "8") as used:
        await sweep.enqueue()
        await testing.drain(running_app.app)
        assert used.exists()
        assert not (library / video["slug"] / ".7-killed").exists()
        assert not (library / "unknown").exists()
    assert [file for file in files(uploads) if file.endswith(".part")] == [f".{made['id']}.part"]
    assert len(running_app.rows("select from posthouse.artifacts where job_id = %s", failed["job_id"])) == 1
    async with clock(running_app.app) as time:
        await time.advance(25 * 3600)
        await sweep.enqueue()
        await testing.drain(running_app.app)
    assert (await vlog_client.client.get(f"/api/videos/uploads/{made['id']}")).status_code == 404
    assert running_app.rows("select from posthouse.artifacts where job_id = %s", failed["job_id"]) == []
    assert [file for file in files(uploads) if file.endswith(".part")] == []


def test_the_workspace_of_a_killed_process_is_swept_and_a_used_one_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = "from vlog.library import workspace\nwith workspace() as f: print(f, flush=True); input()"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        folder = tmp_path / process.stdout.readline().strip()
        assert (sweep_workspaces(), folder.exists()) == (0, True)
        process.kill()
    assert (sweep_workspaces(), folder.exists()) == (1, False)
    kept = tmp_path / "vlog-kept"
    kept.mkdir()
    assert (sweep_workspaces(), (kept / LOCK).exists()) == (0, False)
    shutil.rmtree(kept)


async def test_links_to_media_need_no_credential_until_they_expire(vlog_client, short, monkeypatch):
    video = await vlog_client.upload(short)
    await testing.drain(vlog_client.running_app.app)
    ready, other = await vlog_client.video(video), f"/{video['id'] + 1}/"
    assert ready["link_seconds"] == 6 * 3600
    assert (await vlog_client.video(video))["playlist"] == ready["playlist"], (
        "players and browsers keep their link"
    )
    async with httpx.AsyncClient(base_url=vlog_client.running_app.url) as player:
        for address in (ready["playlist"], ready["thumbnail"]):
            answer = await player.get(address)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
        assert (await player.get(ready["playlist"].replace(f"/{video['id']}/", other))).status_code == 403
        session = f"/api/videos/{video['id']}/signed/session/{ready['version']}/master.m3u8"
        assert (await player.get(session)).status_code == 401
        assert (await vlog_client.client.get(session)).status_code == 200
        monkeypatch.setenv("VLOG_PLAYBACK_LINK_SECONDS", "0")
        expired = await player.get((await vlog_client.video(video))["playlist"])
        assert (expired.status_code, "expired" in expired.json()["detail"]) == (403, True)
        monkeypatch.setenv("VLOG_PLAYBACK_LINKS", "public")
        public = await vlog_client.video(video)
        assert (public["link_seconds"], "/public/" in public["playlist"]) == (None, True)
        assert (await player.get(public["playlist"])).status_code == 200
        monkeypatch.setenv("VLOG_PLAYBACK_LINKS", "signed")
        assert (await player.get(public["playlist"])).status_code == 403


async def test_the_library_is_searched_by_title_and_shows_what_is_worked_on(vlog_client, short):
    alps, sea = (
        await vlog_client.upload(short, "In the Alps"),
        await vlog_client.upload(short, "At sea: 100 %"),
    )
    for q, expected in (("alps", [alps]), ("%", [sea]), ("", [sea, alps]), ("mars", [])):
        found = (await vlog_client.client.get("/api/videos", params={"q": q})).json()
        assert [video["id"] for video in found] == [video["id"] for video in expected], q
    (first, second) = (await vlog_client.client.get("/api/videos/progress")).json()
    assert (first["id"], second["id"], first["status"], first["qualities"]) == (
        alps["id"],
        sea["id"],
        "pending",
        [],
    )
    await testing.drain(vlog_client.running_app.app)
    assert (await vlog_client.client.get("/api/videos/progress")).json() == []
