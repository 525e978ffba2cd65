"""ffmpeg: HLS streams, posters and clips."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import av

SEGMENT_SECONDS = 4
PROXY_HEIGHT = 720
POSTER_AT = 0.1
"""Position of the poster as a share of the duration; the first frame is often black."""
_H264 = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p")
_AAC = ("-c:a", "aac", "-b:a", "128k")

Heard = Callable[[float], Any]
"""Callback with the milliseconds processed."""


class BadVideo(Exception):
    """The file is not a readable video."""


class FfmpegFailed(Exception):
    """ffmpeg failed on a readable file, for example because of a full disk or too little memory."""


@dataclass(frozen=True, slots=True)
class Probe:
    duration_ms: int
    width: int
    height: int


def probe(video: Path) -> Probe:
    try:
        with av.open(video) as container:
            stream = container.streams.video[0]
            return Probe(_duration_ms(container, stream), stream.width, stream.height)
    except (av.FFmpegError, IndexError) as error:
        raise BadVideo(f"the file is not a readable video: {error}") from error


def _duration_ms(container: Any, stream: Any) -> int:
    if container.duration:
        return round(int(container.duration) / 1000)
    if stream.duration:
        return round(float(stream.duration * stream.time_base) * 1000)
    frames = (frame.time for frame in container.decode(stream))  # no duration in the header
    return round(1000 * max((time for time in frames if time is not None), default=0.0))


def write_hls(video: Path, folder: Path, playlist: str, heard: Heard) -> None:
    """Write a playlist and its segments, not higher than the original."""
    _ffmpeg(
        ("-i", str(video), "-map", "0:v:0", "-map", "0:a:0?"),
        ("-vf", f"scale=-2:'trunc(min({PROXY_HEIGHT},ih)/2)*2'"),
        (*_H264, *_AAC, "-force_key_frames", f"expr:gte(t,n_forced*{SEGMENT_SECONDS})"),
        ("-f", "hls", "-hls_time", str(SEGMENT_SECONDS), "-hls_playlist_type", "vod"),
        ("-hls_segment_filename", str(folder / "segment_%05d.ts"), str(folder / playlist)),
        heard=heard,
    )


def write_poster(video: Path, picture: Path) -> None:
    at = probe(video).duration_ms * POSTER_AT / 1000
    _ffmpeg(
        ("-ss", f"{at:.3f}", "-i", str(video), "-frames:v", "1", "-q:v", "3"), ("-update", "1", str(picture))
    )


def write_clip(video: Path, clip: Path, start_ms: int, end_ms: int, heard: Heard) -> None:
    """Write a clip. It is encoded again, because a copy could start only at key frames."""
    _ffmpeg(
        ("-ss", f"{start_ms / 1000:.3f}", "-i", str(video), "-t", f"{(end_ms - start_ms) / 1000:.3f}"),
        ("-map", "0:v:0", "-map", "0:a:0?", *_H264, *_AAC, "-movflags", "+faststart", str(clip)),
        heard=heard,
    )


def padded(t_start: int, t_end: int, padding_ms: int, duration_ms: int) -> tuple[int, int]:
    """Return the range with padding, limited to the duration of the video."""
    return max(0, t_start - padding_ms), min(duration_ms, t_end + padding_ms)


@cache
def ffmpeg() -> str:
    """Return the path of the system's ffmpeg, or of the one from PyPI."""
    found = shutil.which("ffmpeg")
    if found is None:
        from imageio_ffmpeg import get_ffmpeg_exe  # noqa: PLC0415

        found = str(get_ffmpeg_exe())
    return found


def _ffmpeg(*arguments: Sequence[str], heard: Heard | None = None) -> None:
    flat = [argument for group in arguments for argument in group]
    command = [ffmpeg(), "-nostdin", "-y", "-v", "error", "-progress", "pipe:1", *flat]
    with subprocess.Popen(  # noqa: S603 - our own command, no shell
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            said = _listen(process, heard)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise FfmpegFailed(f"ffmpeg failed with exit code {process.returncode}: {' '.join(said[-5:])}")


def _listen(process: subprocess.Popen[str], heard: Heard | None) -> list[str]:
    """Report progress; return the other output lines."""
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        name, _, value = line.strip().partition("=")
        if name == "out_time_us" and heard is not None:
            with suppress(ValueError):  # N/A at first
                heard(int(value) / 1000)
        elif " " in line.strip():
            said.append(line.strip())
    return said
