"""Sound: out of whatever was recorded, and into what recognisers take."""

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
"""Samples a second, which is what recognisers hear."""
OPUS_BITS = 24_000
MOST_CHANNELS = 2


class NoSound(Exception):
    """The recording cannot be read, or there is no sound in it."""


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
        raise NoSound("there is no sound in it, or it is no recording at all") from None


@contextmanager
def as_flac(recording: Path) -> Iterator[Path]:
    """Its sound without loss. Two channels stay two: they are the two who speak."""
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
            raise NoSound(f"the sound cannot be read: {done.stderr.strip()[-500:]}")
        yield target


@cache
def ffmpeg_path() -> str:
    found = shutil.which("ffmpeg")
    if found is None:
        import imageio_ffmpeg  # noqa: PLC0415 - only where the system has none

        found = imageio_ffmpeg.get_ffmpeg_exe()
    return str(found)
