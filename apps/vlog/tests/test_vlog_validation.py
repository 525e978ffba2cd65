"""What does not fit is refused, and says why; what belongs to others is not there."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

from posthouse import testing
from vlog import hls_package
from vlog.encoding import expected_segments
from vlog.ladder import RUNGS, frame_size, select_rungs

REFUSED = [
    ({"title": "x", "filename": "notes.txt"}, b"abc", 415),
    ({"title": "x", "filename": "empty.mp4"}, b"", 422),
    ({"title": "", "filename": "a.mp4"}, b"abc", 422),
    ({"title": "x", "filename": "large.mp4"}, b"x" * 101, 413),
]


async def test_uploads_that_are_no_videos_are_refused(vlog_client, library, monkeypatch):
    monkeypatch.setenv("VLOG_MAX_UPLOAD_BYTES", "100")
    for query, content, status in REFUSED:
        answer = await vlog_client.client.post("/api/videos", params=query, content=content)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
    assert not list((library.parent / "uploads").iterdir())
    assert (await vlog_client.client.get("/api/videos")).json() == []


async def test_an_invalid_video_fails_without_a_retry(vlog_client, tmp_path):
    fake = tmp_path / "fake.mp4"
    fake.write_bytes(b"this is a text")
    video = await vlog_client.upload(fake)
    await testing.drain(vlog_client.running_app.app)
    failed = await vlog_client.video(video)
    assert failed["status"] == "failed"
    assert "is not a readable video" in failed["error_message"]
    assert (await vlog_client.progress(video))["job"]["attempt_number"] == 1


async def test_tenants_see_their_own_videos_only(vlog_client, tmp_path):
    note = tmp_path / "note.mp4"
    note.write_bytes(b"x")
    video = await vlog_client.upload(note)
    other = await vlog_client.running_app.client_for("tenant-admin", "globex")
    admin = await vlog_client.running_app.client_for("super-admin")
    assert (await other.get("/api/videos")).json() == []
    assert len((await admin.get("/api/videos")).json()) == 1
    for method, path in (
        ("GET", ""), ("GET", "/progress"), ("POST", "/retranscode"), ("DELETE", ""),
        ("GET", f"/signed/session/{video['job_id']}/master.m3u8"),
    ):  # fmt: skip
        answer = await other.request(method, f"/api/videos/{video['id']}{path}", json={})
        assert answer.status_code == 404, (method, path)
    viewer = await vlog_client.running_app.client_for("tenant-viewer", "acme")
    assert (await viewer.delete(f"/api/videos/{video['id']}")).status_code == 403
    wrong = await vlog_client.client.post(
        f"/api/videos/{video['id']}/retranscode", json={"qualities": ["9p"]}
    )
    assert (wrong.status_code, "9p" in wrong.json()["detail"]) == (422, True)
    same = await (type(vlog_client)(vlog_client.running_app, other)).upload(note)
    assert same["slug"].startswith(f"{video['slug']}-")


QUALITY = {"quality": "144p", "width": 256, "height": 144, "segments": 1, "codecs": "avc1.42C00B"}
MANIFEST = {"duration": 7.0, "width": 640, "height": 360, "qualities": [QUALITY]}
PLAYLIST = b"#EXTM3U\n#EXTINF:6,\nsegment_00000.ts\n#EXT-X-ENDLIST\n"


def archive(**files):
    """A tar.gz as a worker could make it, of names and contents."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


GOOD = {"index.m3u8": PLAYLIST, "segment_00000.ts": b"x"}
PACKAGES = [
    (MANIFEST, GOOD, None),
    (MANIFEST, {"../../evil.ts": b"x", **GOOD}, "would be written outside the target folder"),
    (MANIFEST, {"segment_00000.ts": b"x"}, "has no index.m3u8"),
    (MANIFEST, {"index.m3u8": PLAYLIST}, "segments of 144p do not match its playlist"),
    (MANIFEST, {**GOOD, "segment_00001.ts": b"x"}, "segments of 144p do not match its playlist"),
    (MANIFEST, {**GOOD, "index.m3u8": b"#EXTM3U\n/etc/passwd\n#EXT-X-ENDLIST"}, "invalid segment names"),
    (MANIFEST, {**GOOD, "index.m3u8": PLAYLIST[:-18]}, "is incomplete"),
    (MANIFEST, {**GOOD, "index.m3u8": PLAYLIST.replace(b"6,", b"0,")}, "has invalid durations"),
    ({**MANIFEST, "qualities": []}, GOOD, "invalid manifest"),
    ({**MANIFEST, "qualities": [{**QUALITY, "quality": "../up"}]}, GOOD, "invalid manifest"),
]


async def test_what_a_worker_made_up_is_never_shown(vlog_client, library, tmp_path):
    (tmp_path / "note.mp4").write_bytes(b"x")
    videos = [await hand_in(vlog_client, tmp_path / "note.mp4", *given[:2]) for given in PACKAGES]
    await testing.drain(vlog_client.running_app.app)
    for video, (_, _, why) in zip(videos, PACKAGES, strict=True):
        found = await vlog_client.video(video)
        if why is None:
            assert (found["status"], found["playable"]) == ("ready", True)
        else:
            assert (found["status"], found["playable"]) == ("failed", False), why
            assert why in found["error_message"]
            assert not list((library / found["slug"]).iterdir())
    assert not list(library.parent.rglob("evil.ts"))


async def hand_in(vlog_client, note, manifest, files):
    """Plays a remote worker that hands in these files."""
    video = await vlog_client.upload(note)
    http = await vlog_client.running_app.client_for("worker")
    worker = {"worker_id": video["publish_id"], "queues": ["vlog"], "kinds": ["vlog.transcode"]}
    await http.post("/api/v1/worker/register", json=worker)
    token = (await http.post("/api/v1/worker/jobs/claim", json=worker)).json()["token"]
    where = f"/api/v1/worker/jobs/{video['job_id']}"
    for name, content in (
        (hls_package.MANIFEST, json.dumps(manifest).encode()),
        (hls_package.THUMBNAIL, b"picture"),
        ("144p.tar.gz", archive(**files)),
    ):
        headers = {"X-Lease-Token": token, "X-Content-SHA256": hashlib.sha256(content).hexdigest()}
        kept = await http.put(f"{where}/artifacts/{name}", content=content, headers=headers)
        assert kept.status_code == 201, kept.text
    done = await http.post(f"{where}/complete", json={"token": token})
    assert done.status_code == 200, done.text
    return video


def names(*given):
    return [rung.name for rung in select_rungs(*given)]


def test_a_ladder_never_makes_a_picture_larger():
    assert names(["480p", "1080p", "720p"], 1280, 720) == ["720p", "480p"]
    assert names(["1080p", "720p"], 320, 240) == ["720p"]
    assert frame_size(RUNGS["720p"], 320, 240) == (320, 240)
    assert frame_size(RUNGS["480p"], 1920, 1080) == (854, 480)
    assert expected_segments(12.1) == 3


def test_a_ladder_goes_by_the_short_side_and_has_a_quality_at_source_size():
    everything = ["source", *RUNGS]
    assert names(everything, 1080, 1920)[0] == "1080p", (
        "a portrait video has as many lines as a landscape one"
    )
    assert frame_size(RUNGS["360p"], 1080, 1920) == (360, 640)
    assert names(everything, 1600, 900)[:2] == ["source", "720p"]
    source = select_rungs(everything, 1600, 900)[0]
    assert (source.lines, RUNGS["720p"].video_bits < source.video_bits < RUNGS["1080p"].video_bits) == (
        900,
        True,
    )
    assert frame_size(source, 1601, 901) == (1600, 900)
    assert names(everything, 160, 90) == ["source"]
    assert names(everything, 7680, 4320)[:2] == ["source", "2160p"]
    assert names(everything, 1920, 1088)[0] == "1080p", "close enough"


async def test_values_that_cannot_be_stored_are_refused(vlog_client, tmp_path):
    note = tmp_path / "note.mp4"
    note.write_bytes(b"x")
    video = await vlog_client.upload(note)
    path = f"/api/videos/{video['id']}/transcription"
    for body in (
        b'{"content": "a\\u0000b"}',
        b'{"content": "\xff"}',
        b'{"content": "\\ud800"}',
        b"[" * 5000,
        b"null",
    ):
        answer = await vlog_client.client.put(
            path, content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    named = await vlog_client.client.post(
        "/api/videos", params={"title": "a\x00b", "filename": "a.mp4"}, content=b"x"
    )
    assert named.status_code == 422, named.text
    assert (await vlog_client.client.get(f"/api/videos/{2**70}")).status_code == 422
    strange = f"/api/videos/{video['id']}/signed/session/{video['job_id']}/"
    assert (await vlog_client.client.get(strange + "a%00b")).status_code in {404, 422}
    assert (await vlog_client.client.get(strange + "a" * 300)).status_code == 404
