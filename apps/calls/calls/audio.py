"""Audio conversion for recognizers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import av

RATE = 16_000
"""Sample rate of recognizers, per second."""
OPUS_BITS = 24_000
MOST_CHANNELS = 2


class NoAudio(Exception):
    """The recording is not readable, or has no audio."""


class Sound(NamedTuple):
    duration: float
    channels: int


def probe(path: Path) -> Sound:
    try:
        with av.open(str(path)) as container:
            stream = container.streams.audio[0]
            length = stream.duration and stream.time_base and float(stream.duration * stream.time_base)
            return Sound(length or (container.duration or 0) / av.time_base, stream.codec_context.channels)
    except (av.FFmpegError, IndexError):
        raise NoAudio("the recording has no audio, or is not an audio or video file") from None


@contextmanager
def as_flac(recording: Path) -> Iterator[Path]:
    """Convert to FLAC. Two channels are kept, because each is one speaker."""
    channels = min(probe(recording).channels, MOST_CHANNELS)
    with _converted(recording, ".flac", "-vn", "-c:a", "flac", "-ac", str(channels)) as made:
        yield made


@contextmanager
def as_opus(sound: Path) -> Iterator[Path]:
    with _converted(sound, ".ogg", "-c:a", "libopus", "-b:a", str(OPUS_BITS), "-application", "voip") as made:
        yield made


@contextmanager
def _converted(source: Path, suffix: str, *options: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"sound{suffix}"
        command = [
            ffmpeg_path(), "-v", "error", "-nostdin", "-y", "-i", str(source), "-map", "0:a:0",
            "-ar", str(RATE), *options, str(target),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if done.returncode != 0:
            raise NoAudio(f"cannot convert the audio: {done.stderr.strip()[-500:]}")
        yield target


@cache
def ffmpeg_path() -> str:
    found = shutil.which("ffmpeg")
    if found is None:
        import imageio_ffmpeg  # noqa: PLC0415 - only if the system has none

        found = imageio_ffmpeg.get_ffmpeg_exe()
    return str(found)
