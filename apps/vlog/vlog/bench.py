"""python -m vlog.bench: a video from its upload to ready, and plain ffmpeg for the same qualities."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from posthouse_media import ffmpeg_path, probe
from vlog import encoding
from vlog.demo import generate_clip
from vlog.encoders import selected_encoder
from vlog.ladder import select_rungs

SECONDS, ROUNDS = 30, 3
QUALITIES = ["720p", "480p", "360p"]
_POLL_SECONDS = 0.25


def main(seconds: int, rounds: int) -> dict[str, object]:
    """Return the wall times in seconds of each turn, and the ratio of the fastest ones.

    Both run the same command per quality; plain ffmpeg one after the other, because each uses all cores. The
    time of the application includes everything: claim, transfers, pictures, checks and publishing.
    """
    with tempfile.TemporaryDirectory() as name, _running_server(Path(name) / "data") as http:
        source = generate_clip(Path(name) / "clip.mp4", seconds)
        _time_transcoding(
            http, generate_clip(Path(name) / "first.mp4", 1)
        )  # starts the processes of the worker
        application_times, ffmpeg_times = [], []
        for number in range(rounds):
            if number % 2:
                application_times.append(_time_transcoding(http, source))
            ffmpeg_times.append(_time_ffmpeg(source, Path(name) / str(number)))
            if not number % 2:
                application_times.append(_time_transcoding(http, source))
    return {
        "plain_ffmpeg_s": [round(each, 1) for each in ffmpeg_times],
        "application_s": [round(each, 1) for each in application_times],
        "ratio": round(min(application_times) / min(ffmpeg_times), 3),
    }


@contextmanager
def _running_server(data_dir: Path) -> Iterator[httpx.Client]:
    """Run the server with an embedded Postgres and a worker."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}
    command = [sys.executable, "-m", "posthouse", "up", "--app", "vlog:app", "--port", "0"]
    with subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--data-dir", str(data_dir)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**env, "VLOG_QUALITIES": ",".join(QUALITIES), "PYTHONUNBUFFERED": "1"},
    ) as server:  # fmt: skip
        assert server.stdout is not None
        text = ""
        while not (found := re.search(r"ready: (\S+)\n.*only once: (\S+)", text)):
            line = server.stdout.readline()
            if not line:
                raise RuntimeError(f"the server did not start: {text}")
            text += line
        try:
            key = {"Authorization": f"Bearer {found[2]}"}
            with httpx.Client(base_url=found[1], headers=key, timeout=60) as http:
                yield http
        finally:
            server.send_signal(signal.SIGINT)


def _time_ffmpeg(source: Path, folder: Path) -> float:
    started = time.monotonic()
    info = probe(source)
    for rung in select_rungs(QUALITIES, info.width, info.height):
        target = folder / rung.name
        target.mkdir(parents=True)
        options = encoding.ffmpeg_arguments(source, target, rung, info, selected_encoder())
        subprocess.run([ffmpeg_path(), "-v", "error", "-nostdin", *options], check=True)  # noqa: S603 - likewise
    return time.monotonic() - started


def _time_transcoding(http: httpx.Client, source: Path) -> float:
    query = {"title": source.stem, "filename": source.name}
    video = http.post("/api/videos", params=query, content=source.read_bytes()).raise_for_status().json()
    started = time.monotonic()
    while video["status"] in {"pending", "processing"}:
        time.sleep(_POLL_SECONDS)
        video = http.get(f"/api/videos/{video['id']}").raise_for_status().json()
    if video["status"] != "ready":
        raise RuntimeError(f"transcoding failed: {video['error_message']}")
    return time.monotonic() - started


if __name__ == "__main__":
    given = [int(value) for value in sys.argv[1:3]]
    print(json.dumps(main(*[*given, *(SECONDS, ROUNDS)[len(given) :]])))  # noqa: T201 - its output
