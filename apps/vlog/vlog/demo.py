"""posthouse demo vlog: two remote workers transcode a video, and one of them is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import av
import httpx

from posthouse.demo import Stage
from posthouse_media import ffmpeg_path

CLIP_SECONDS = 20
QUALITIES = "720p,480p,360p"
REMOTE_CAPABILITY = "demo-remote"
"""Capability of the remote workers only, so that the local worker does not claim the video."""
FAST_FAILOVER = {
    "POSTHOUSE_LEASE_SECONDS": "4",  # how long a lost worker keeps its job
    "POSTHOUSE_HEARTBEAT_SECONDS": "0.5",
    "POSTHOUSE_PROCESS_SLOTS": "1",
    "VLOG_PARALLEL_QUALITIES": "1",
}


async def demo(stage: Stage) -> dict[str, Any]:
    os.environ.update(
        VLOG_QUALITIES=QUALITIES, VLOG_REQUIRES=REMOTE_CAPABILITY
    )  # for the server, which runs in this process
    clip = await asyncio.to_thread(generate_clip, stage.folder / "clip.mp4", stage.size or CLIP_SECONDS)
    headers = {"Authorization": f"Bearer {stage.api_key}"}
    async with httpx.AsyncClient(base_url=stage.api_url, headers=headers, timeout=60) as http:
        query = {"title": "Posthouse demo", "filename": clip.name}
        response = await http.post("/api/videos", params=query, content=clip.read_bytes())
        response.raise_for_status()
        monitor = VideoMonitor(stage, http, response.json()["id"])
        stage.say(f"uploaded {clip.stat().st_size / 1e6:.1f} MB as video {monitor.id}")
        workers = {name: _start_worker(stage, name) for name in ("remote-1", "remote-2")}
        await stage.until(monitor.is_half_done, "one quality completed and another in progress", 120)
        victim = monitor.worker
        workers[victim].kill()
        killed_at = time.monotonic()
        done = sorted(monitor.completed())
        stage.say(f"killed {victim} after it completed {', '.join(done)}")
        await stage.until(monitor.is_resumed, "another worker to encode its quality again", 120)
        resumed_after = round(time.monotonic() - killed_at, 1)
        stage.say(f"{monitor.worker} encodes its quality again after {resumed_after} s")
        await stage.until(monitor.is_ready, "the video to be ready", 300)
        return {
            **await _report(monitor, stage),
            "killed worker": victim,
            "completed before": done,
            "seconds until resumed": resumed_after,
            "seconds until ready": round(time.monotonic() - killed_at, 1),
        }


class VideoMonitor:
    """A video whose progress is polled."""

    def __init__(self, stage: Stage, http: httpx.AsyncClient, video_id: int) -> None:
        self._stage = stage
        self._http = http
        self.id = video_id
        self.progress: dict[str, Any] = {}

    async def get(self, path: str = "") -> dict[str, Any]:
        response = await self._http.get(f"/api/videos/{self.id}{path}")
        response.raise_for_status()
        found: dict[str, Any] = response.json()
        return found

    async def refresh(self) -> None:
        self.progress = await self.get("/progress")
        for item in self.progress["qualities"]:
            percent = item["progress_percent"]
            self._stage.show(item["quality"], percent, 100, f"{item['status']} {percent:.0f} %")

    @property
    def worker(self) -> str:
        return str(self.progress["job"]["processed_by_worker_name"])

    def completed(self) -> dict[str, int]:
        """Return the completed qualities with the attempt that completed them."""
        return {
            item["quality"]: item["attempt"]
            for item in self.progress["qualities"]
            if item["status"] == "completed"
        }

    async def is_half_done(self) -> bool:
        await self.refresh()
        in_progress = [item for item in self.progress["qualities"] if item["status"] == "in_progress"]
        return bool(self.completed()) and bool(in_progress)

    async def is_resumed(self) -> bool:
        """Return whether another worker encodes a quality of the killed one."""
        await self.refresh()
        return any(
            item["attempt"] > 1 for item in self.progress["qualities"] if item["status"] == "in_progress"
        )

    async def is_ready(self) -> bool:
        await self.refresh()
        if self.progress["status"] == "failed":
            raise RuntimeError(f"transcoding failed: {self.progress['job']['last_error']}")
        return bool(self.progress["status"] == "ready")


async def _report(monitor: VideoMonitor, stage: Stage) -> dict[str, Any]:
    video = await monitor.get()
    url = f"{stage.api_url}{video['playlist']}"
    streams = await asyncio.to_thread(_probe_stream, url, stage.api_key)
    return {
        "video": video["slug"],
        "status": video["status"],
        "playlist": url,
        "streams": streams,
        "attempts": monitor.progress["job"]["attempt_number"],
        "completed in attempt": monitor.completed(),
    }


def _start_worker(stage: Stage, name: str) -> subprocess.Popen[bytes]:
    options = ("--queue", "vlog", "--name", name, "--capability", REMOTE_CAPABILITY)
    return stage.worker(*options, remote=True, **FAST_FAILOVER)


def generate_clip(target: Path, seconds: int) -> Path:
    """Generate a test video with sound."""
    command = [
        ffmpeg_path(), "-v", "error", "-y",
        "-f", "lavfi", "-i", f"testsrc2=size=1280x720:rate=25:duration={seconds}",
        "-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}",
        "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", str(target),
    ]  # fmt: skip
    subprocess.run(command, check=True)  # noqa: S603 - our own command
    return target


def _probe_stream(url: str, key: str) -> list[str]:
    """Return the resolutions and the duration of the stream, read over HTTP like a player."""
    options = {"headers": f"Authorization: Bearer {key}\r\n"}
    with av.open(url, options=options) as stream:
        sizes = {f"{item.width}x{item.height}" for item in stream.streams.video}
        return [*sorted(sizes), f"{(stream.duration or 0) / av.time_base:.1f} s"]
