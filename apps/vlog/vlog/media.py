"""Probing, thumbnails and encoding of videos. Independent of jobs."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import av

from vlog import settings
from vlog.ladder import Rung, size_at

SEGMENT_SECONDS = 6.0
PLAYLIST = "index.m3u8"
_ERROR_BYTES = 4000


class MediaError(Exception):
    """ffmpeg failed."""


class NotAVideo(Exception):
    """The file is not a video; a retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Properties of a video."""

    width: int
    height: int
    duration: float
    has_audio: bool

    @property
    def segments(self) -> int:
        return max(1, math.ceil(self.duration / SEGMENT_SECONDS))


@dataclass(frozen=True, slots=True)
class Reached:
    """Progress of an encoding."""

    percent: float
    segments: int


def probe(source: Path) -> Facts:
    try:
        with av.open(str(source)) as container:
            video = container.streams.video[0]
            seconds = float(container.duration or 0) / 1_000_000
            sideways = abs(_rotation(container)) % 180 == 90  # noqa: PLR2004 - portrait
            width, height = (video.height, video.width) if sideways else (video.width, video.height)
            facts = Facts(width, height, seconds, has_audio=bool(container.streams.audio))
    except (av.FFmpegError, IndexError) as error:
        raise NotAVideo(f"{source.name} is not a video: {error}") from error
    if not (facts.width and facts.height and facts.duration > 0):
        raise NotAVideo(f"{source.name} is not a video: it has no frame size or no duration")
    return facts


def _rotation(container: av.container.InputContainer) -> int:
    for frame in container.decode(video=0):
        return int(frame.rotation)
    return 0


async def thumbnail(source: Path, target: Path, facts: Facts) -> None:
    """Write a thumbnail, taken at 10 % of the duration and at most 640 pixels wide."""
    at = ("-ss", f"{facts.duration / 10:.3f}", "-i", str(source), "-frames:v", "1")
    async with _ffmpeg(*at, "-vf", "scale='min(640,iw)':-2", "-q:v", "4", str(target)):
        pass


async def encode(source: Path, folder: Path, rung: Rung, facts: Facts) -> AsyncIterator[Reached]:
    """Write playlist and segments of one quality into a folder; yield the progress."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    async with _ffmpeg(*_encoding(source, folder, rung, facts)) as lines:
        async for line in lines:
            name, _, value = line.partition("=")
            if name == "out_time_us" and value.isdigit():
                seconds = min(int(value) / 1_000_000, facts.duration)
                yield Reached(100 * seconds / facts.duration, int(seconds // SEGMENT_SECONDS))


def _encoding(source: Path, folder: Path, rung: Rung, facts: Facts) -> Sequence[str]:
    width, height = size_at(rung, facts.width, facts.height)
    encoder = settings.encoder()
    speed = ("-preset", settings.preset()) if encoder == "libx264" else ()
    bits = (f"{rung.video_bits}", f"{rung.video_bits * 2}")
    sound = ("-c:a", "aac", "-b:a", f"{rung.audio_bits}", "-ac", "2") if facts.has_audio else ("-an",)
    return (
        "-i", str(source), "-map", "0:v:0", "-map", "0:a:0?",
        "-vf", f"scale={width}:{height}", "-pix_fmt", "yuv420p", "-c:v", encoder, *speed,
        "-b:v", bits[0], "-maxrate", bits[0], "-bufsize", bits[1], *sound,
        # Segments of all qualities start at the same times, so that players can switch between them.
        "-force_key_frames", f"expr:gte(t,n_forced*{SEGMENT_SECONDS:g})",
        "-f", "hls", "-hls_time", f"{SEGMENT_SECONDS:g}", "-hls_playlist_type", "vod",
        "-hls_segment_filename", str(folder / "segment_%05d.ts"), str(folder / PLAYLIST),
    )  # fmt: skip


def ffmpeg_path() -> str:
    """Return the path of the system's ffmpeg, or of imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    import imageio_ffmpeg  # noqa: PLC0415 - only if the system has none

    return str(imageio_ffmpeg.get_ffmpeg_exe())


@asynccontextmanager
async def _ffmpeg(*arguments: str) -> AsyncIterator[AsyncIterator[str]]:
    """Run ffmpeg and yield its progress lines. Leaving the block early kills the process."""
    command = (ffmpeg_path(), "-nostdin", "-hide_banner", "-loglevel", "error", "-y")
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, "-progress", "pipe:1",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        yield _lines(process.stdout)
        said = (await errors)[-_ERROR_BYTES:].decode(errors="replace").strip()
        if await process.wait():
            raise MediaError(said or f"ffmpeg failed with exit code {process.returncode}")
    finally:
        errors.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    async for line in stream:
        yield line.decode(errors="replace").strip()
