"""Properties of videos."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import av
from av.stream import Disposition

_MISSING_SECONDS, _MISSING_SHARE = 0.5, 0.02
_Input: TypeAlias = "av.container.InputContainer"


class NotAVideo(Exception):
    """The file is not a readable video. A retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Properties of a video.

    - ``width``, ``height``: in pixels as displayed, with the rotation applied.
    - ``rotation``: degrees clockwise by which players turn the stored frames: 0, 90, 180 or 270.
    - ``duration``: seconds that the container states, or that its packets have if it states none.
    - ``fps``: average number of frames per second; 0.0 if it is unknown.
    """

    width: int
    height: int
    rotation: int
    duration: float
    fps: float
    has_audio: bool


def probe(path: Path) -> VideoInfo:
    """Return the properties of a video. Raises NotAVideo.

    Attached pictures, such as the cover of a song, are not video streams.
    """
    with _opened(path) as container:
        stream = _video_stream(container)
        first = _first_frame(container, stream)
        rotation = -int(first.rotation) % 360
        width, height = first.width, first.height
        if rotation % 180:
            width, height = height, width
        stated = _stated_duration(container, stream)
        rate = stream.average_rate or stream.guessed_rate
        fps, has_audio = float(rate or 0), bool(container.streams.audio)
    duration = stated or measured_duration(path)
    if duration <= 0:  # one frame without a duration
        duration = 1 / fps if fps else 0.0
    if duration <= 0:
        raise NotAVideo("the file has no duration")
    return VideoInfo(width, height, rotation, duration, fps, has_audio)


def measured_duration(path: Path) -> float:
    """Return the seconds between the first and the end of the last packet. Raises NotAVideo.

    Reads the whole file, or all segments of an HLS playlist. Damaged files count up to the damage.
    """
    with _opened(path) as container:
        start, end = _extent(container)
    return max(0.0, end - start)


def is_truncated(source: float, output: float) -> bool:
    """Whether an output is shorter than its source by more than 0.5 s and more than 2 %."""
    return source - output > max(_MISSING_SECONDS, _MISSING_SHARE * source)


@contextmanager
def _opened(path: Path) -> Iterator[_Input]:
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            yield container
    except (av.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or "unknown format"
        raise NotAVideo(f"the file is not a readable video: {reason}") from error


def _video_stream(container: _Input) -> av.VideoStream:
    found = _video_streams(container)
    if not found:
        raise NotAVideo("the file has no video stream")
    return found[0]


def _first_frame(container: _Input, stream: av.VideoStream) -> Any:
    packets: Iterator[Any] = container.demux(stream)
    for packet in packets:
        try:
            frames = packet.decode()
        except av.FFmpegError:  # a stream may start between key frames
            continue
        for frame in frames:
            if frame.width and frame.height:
                return frame
    raise NotAVideo("the file has no readable frame")


def _stated_duration(container: _Input, stream: av.VideoStream) -> float:
    if container.duration and container.duration > 0:
        return container.duration / av.time_base
    if stream.duration and stream.duration > 0 and stream.time_base:
        return float(stream.duration * stream.time_base)
    return 0.0


def _extent(container: _Input) -> tuple[float, float]:
    """Return the earliest start and the latest end of all packets that have a time."""
    start, end = inf, -inf
    for packet in _readable_packets(container):
        at = packet.dts if packet.pts is None else packet.pts
        if at is not None and packet.time_base is not None:
            start = min(start, float(at * packet.time_base))
            end = max(end, float((at + (packet.duration or 0)) * packet.time_base))
    return start, end


def _readable_packets(container: _Input) -> Iterator[Any]:
    """Yield the packets of video and audio up to the end or the first error."""
    streams = [*_video_streams(container), *container.streams.audio]
    if not streams:
        return
    with suppress(av.FFmpegError, OSError):
        yield from container.demux(streams)


def _video_streams(container: _Input) -> list[av.VideoStream]:
    return [each for each in container.streams.video if not each.disposition & Disposition.attached_pic]
