"""Encoding of one quality of a video. Independent of jobs."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import av

from posthouse_media import VideoInfo, is_truncated, measured_duration, stream_ffmpeg
from vlog import settings
from vlog.encoders import CPU, Encoder, selected_encoder
from vlog.ladder import Rung, frame_size

SEGMENT_SECONDS = 6.0
PLAYLIST = "index.m3u8"
_AAC = "mp4a.40.2"
_SEQUENCE_PARAMETERS = re.compile(rb"\x00\x00\x01[\x07\x27\x47\x67](...)", re.DOTALL)
"""A sequence parameter set of H.264: profile, constraints and level follow its first byte."""


class EncodingStalled(Exception):
    """ffmpeg made no progress for VLOG_JOB_STALE_TIMEOUT seconds."""


class TruncatedSource(Exception):
    """The source ends before the duration that its container states; a retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class EncodingProgress:
    """Progress of an encoding: a percentage, and the number of complete segments."""

    percent: float
    segments: int


def expected_segments(duration: float) -> int:
    return max(1, math.ceil(duration / SEGMENT_SECONDS))


async def encode(source: Path, folder: Path, rung: Rung, info: VideoInfo) -> AsyncIterator[EncodingProgress]:
    """Write playlist and segments of one quality into a folder; yield the progress.

    Raises EncodingStalled, and TruncatedSource if the output is shorter than the source.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    encoder = await asyncio.to_thread(selected_encoder)
    running = stream_ffmpeg(*ffmpeg_arguments(source, folder, rung, info, encoder))
    async with aclosing(running) as positions:
        async for seconds in _raise_when_stalled(positions, settings.stale_timeout()):
            part = min(seconds, info.duration) / info.duration
            # The newest segment is still being written.
            yield EncodingProgress(100 * part, max(0, segment_count(folder) - 1))
    await asyncio.to_thread(_check_length, folder, info)


async def _raise_when_stalled(positions: AsyncIterator[float], stale_seconds: float) -> AsyncIterator[float]:
    """Yield the positions. Raises EncodingStalled when they stop growing."""
    clock = asyncio.get_running_loop().time
    furthest, deadline = -1.0, clock() + stale_seconds
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                seconds = await anext(positions, None)
        except TimeoutError:
            raise EncodingStalled(f"ffmpeg made no progress for {stale_seconds:g} s") from None
        if seconds is None:
            return
        if seconds > furthest:
            furthest, deadline = seconds, clock() + stale_seconds
        yield seconds


def segment_count(folder: Path) -> int:
    return sum(1 for _ in folder.glob("segment_*.ts"))


def _check_length(folder: Path, info: VideoInfo) -> None:
    readable = measured_duration(folder / PLAYLIST)
    if is_truncated(info.duration, readable):
        raise TruncatedSource(
            f"the file is incomplete: it states {info.duration:.1f} s, of which {readable:.1f} s are "
            "readable; upload the whole file"
        )


def codecs_of(folder: Path) -> str:
    """Return the codecs of a quality as players expect them in a master playlist (RFC 6381)."""
    first = min(folder.glob("segment_*.ts"))
    with av.open(str(first)) as container:
        has_audio = bool(container.streams.audio)
        found = next(
            filter(None, (_SEQUENCE_PARAMETERS.search(bytes(packet)) for packet in container.demux(video=0)))
        )
    video = f"avc1.{found[1].hex().upper()}"
    return f"{video},{_AAC}" if has_audio else video


def ffmpeg_arguments(
    source: Path, folder: Path, rung: Rung, info: VideoInfo, encoder: Encoder = CPU
) -> Sequence[str]:
    """Return the arguments of ffmpeg for one quality."""
    width, height = frame_size(rung, info.width, info.height)
    speed = ("-preset", settings.preset()) if encoder is CPU else encoder.options
    bits = f"{rung.video_bits}"
    sound = ("-c:a", "aac", "-b:a", f"{rung.audio_bits}", "-ac", "2") if info.has_audio else ("-an",)
    return (
        *encoder.input_options, "-i", str(source), "-map", "0:V:0", "-map", "0:a:0?", "-sn", "-dn",
        "-vf", encoder.filters(width, height), "-c:v", encoder.name, *speed,
        "-b:v", bits, "-maxrate", bits, "-bufsize", f"{rung.video_bits * 2}", *sound,
        # Segments of all qualities start at the same times, so that players can switch between them.
        "-force_key_frames", f"expr:gte(t,n_forced*{SEGMENT_SECONDS:g})",
        "-f", "hls", "-hls_time", f"{SEGMENT_SECONDS:g}", "-hls_playlist_type", "vod",
        "-hls_segment_filename", str(folder / "segment_%05d.ts"), str(folder / PLAYLIST),
    )  # fmt: skip
