"""Audio conversion for recognizers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import av

from posthouse_media import FfmpegFailed, run_ffmpeg

SAMPLE_RATE = 16_000
"""Sample rate of recognizers, per second."""
OPUS_BIT_RATE = 24_000
MAX_CHANNELS = 2

ProgressCallback = Callable[[float], object]
"""Callback with the seconds of audio that are converted."""


class NoAudio(Exception):
    """The recording is not readable, or has no audio."""


class AudioInfo(NamedTuple):
    duration: float
    channels: int


def probe(path: Path) -> AudioInfo:
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            stream = container.streams.audio[0]
            length = stream.duration and stream.time_base and float(stream.duration * stream.time_base)
            seconds = length or (container.duration or 0) / av.time_base
            return AudioInfo(seconds, stream.codec_context.channels)
    except (av.FFmpegError, OSError, IndexError):
        raise NoAudio("the recording has no audio, or is not an audio or video file") from None


@contextmanager
def convert_to_flac(recording: Path, on_progress: ProgressCallback | None = None) -> Iterator[Path]:
    """Convert to FLAC. Two channels are kept, because each is one speaker."""
    channels = min(probe(recording).channels, MAX_CHANNELS)
    with _convert(recording, ".flac", on_progress, "-vn", "-c:a", "flac", "-ac", str(channels)) as converted:
        yield converted


@contextmanager
def convert_to_opus(audio: Path, on_progress: ProgressCallback | None = None) -> Iterator[Path]:
    opus = ("-c:a", "libopus", "-b:a", str(OPUS_BIT_RATE), "-application", "voip")
    with _convert(audio, ".ogg", on_progress, *opus) as converted:
        yield converted


@contextmanager
def _convert(
    source: Path, suffix: str, on_progress: ProgressCallback | None, *options: str
) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"audio{suffix}"
        try:
            run_ffmpeg(
                "-i", str(source), "-map", "0:a:0", "-ar", str(SAMPLE_RATE), *options, str(target),
                on_progress=on_progress,
            )  # fmt: skip
        except FfmpegFailed as error:
            raise NoAudio(f"cannot convert the audio: {error}") from None
        yield target
