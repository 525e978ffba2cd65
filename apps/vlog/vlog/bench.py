"""python -m vlog.bench: the qualities of one video as the application encodes them, and with plain ffmpeg."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from posthouse_media import VideoInfo, ffmpeg_path, probe
from vlog import encoding, settings
from vlog.encoders import chosen
from vlog.ladder import Rung, fitting

SECONDS = 30
QUALITIES = ["720p", "480p", "360p"]


def main(seconds: int) -> dict[str, float]:
    """Return the wall times in seconds, and their ratio. Both run the same command per quality."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = _generate(folder / "clip.mp4", seconds)
        info = probe(source)
        rungs = fitting(QUALITIES, info.width, info.height)
        began = time.monotonic()
        _encode_plainly(source, folder / "plain", rungs, info)
        plain = time.monotonic() - began
        began = time.monotonic()
        asyncio.run(_encode_as_a_worker(source, folder / "worker", rungs, info))
        ours = time.monotonic() - began
    return {
        "plain_ffmpeg_s": round(plain, 2),
        "application_s": round(ours, 2),
        "ratio": round(ours / plain, 3),
        "parallel_qualities": settings.parallel_qualities(),
    }


def _generate(target: Path, seconds: int) -> Path:
    command = [
        ffmpeg_path(), "-v", "error", "-y",
        "-f", "lavfi", "-i", f"testsrc2=size=1280x720:rate=25:duration={seconds}",
        "-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}",
        "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", str(target),
    ]  # fmt: skip
    subprocess.run(command, check=True)  # noqa: S603 - our own command
    return target


def _encode_plainly(source: Path, folder: Path, rungs: list[Rung], info: VideoInfo) -> None:
    """Run ffmpeg once per quality, one after the other: each uses all cores."""
    for rung in rungs:
        target = folder / rung.name
        target.mkdir(parents=True)
        options = encoding.arguments(source, target, rung, info, chosen())
        subprocess.run([ffmpeg_path(), "-v", "error", "-nostdin", *options], check=True)  # noqa: S603 - likewise


async def _encode_as_a_worker(source: Path, folder: Path, rungs: list[Rung], info: VideoInfo) -> None:
    at_once = asyncio.Semaphore(settings.parallel_qualities())

    async def make(rung: Rung) -> None:
        async with at_once:
            async for _ in encoding.encode(source, folder / rung.name, rung, info):
                pass

    await asyncio.gather(*map(make, rungs))


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)))  # noqa: T201 - its output
