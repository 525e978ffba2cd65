"""What the tests of vlog share: small videos, and a library in a folder of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess

import pytest
from vlog_kit import SECRET

from posthouse_media import ffmpeg_path
from support.waiting import WAIT_SECONDS


@pytest.fixture
def app_path():
    return "vlog:app"


@pytest.fixture
def settings(settings, tmp_path):
    return dataclasses.replace(
        settings,
        admin_secret=SECRET,
        data_dir=tmp_path / "data" / "posthouse",
        poll_seconds=0.1,
    )


@pytest.fixture(autouse=True)
def _in_threads(handlers_in_threads):
    """All tests that drain or have a crew; the demo starts workers that have job processes."""


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """Seven seconds of moving picture and sound, in 360 lines: two segments in each quality."""
    target = tmp_path_factory.mktemp("clips") / "clip.mp4"
    picture = "testsrc2=size=640x360:rate=12:duration=7"
    subprocess.run(
        [
            ffmpeg_path(), "-v", "error", "-y", "-f", "lavfi", "-i", picture,
            "-f", "lavfi", "-i", "sine=frequency=440:duration=7",
            "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", "-shortest", target,
        ],
        check=True,
    )  # fmt: skip
    return target


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    """Folders and settings for server and workers alike."""
    monkeypatch.setenv("VLOG_UPLOADS_DIR", str(tmp_path / "uploads"))
    monkeypatch.setenv("VLOG_VIDEOS_DIR", str(tmp_path / "videos"))
    monkeypatch.setenv("VLOG_QUALITIES", "480p,360p,240p,144p")
    monkeypatch.setenv("VLOG_PRESET", "ultrafast")
    monkeypatch.setenv("VLOG_KEEP_REPLACED_SECONDS", "0")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "videos"


class VlogClient:
    """The product, as a user with videos uses it."""

    def __init__(self, running_app, client):
        self.running_app = running_app
        self.client = client

    async def upload(self, clip, title="A day out", **query):
        named = {"title": title, "filename": clip.name, **query}
        answer = await self.client.post("/api/videos", params=named, content=clip.read_bytes())
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def video(self, video):
        answer = await self.client.get(f"/api/videos/{video['id']}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def progress(self, video):
        return (await self.client.get(f"/api/videos/{video['id']}/progress")).json()

    async def until(self, video, *statuses, seconds=WAIT_SECONDS):
        deadline = asyncio.get_running_loop().time() + seconds
        while (found := await self.video(video))["status"] not in statuses:
            assert asyncio.get_running_loop().time() < deadline, (found, self.running_app.logs())
            await asyncio.sleep(0.05)
        return found

    def parts(self, video):
        """(quality, status, attempt that wrote it) of its newest job."""
        rows = self.running_app.rows(
            "select quality, status, attempt from vlog.quality_progress where video_id = %s order by ordinal",
            video["id"],
        )
        return [(row["quality"], row["status"], row["attempt"]) for row in rows]


@pytest.fixture
async def local_worker(running_app):
    """A worker in here that does everything; gives what waits until all is done."""
    worker = await running_app.app.worker()
    await worker.start()
    yield running_app.until_ended
    await worker.stop(0)


@pytest.fixture
async def vlog_client(running_app):
    return VlogClient(running_app, await running_app.client_for("tenant-admin", "acme"))
