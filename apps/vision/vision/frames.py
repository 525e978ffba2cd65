"""Picks the frames of a video that are worth reading. One is in memory at a time, however many there are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt

from vision.media import BadVideo

Grey = npt.NDArray[np.int16]

TILE = 3
"""Pixels of a side of a tile. In eight short films (720p and 270p, crf 20 and 28, noise or none) whose
caption changes by one digit, 3 found every change and nothing else; 4 missed some of 270p, 8 nearly all."""
PLACE = 8
"""Tiles of a side of a place, which is then about as large as a letter or two."""
LEVELS = 12
"""So many levels of grey a tile must change by: compression and noise change it by less."""
QUALITY = 92


class Picked(NamedTuple):
    timestamp_ms: int
    jpeg: bytes


class Skipped(NamedTuple):
    timestamp_ms: int


def pick(video: Path, target_fps: float, dedupe_threshold: float) -> Iterator[Picked | Skipped]:
    """The frames at this pace: skipped are those that are like the last one picked."""
    kept: Grey | None = None
    for timestamp_ms, frame in _sampled(video, target_fps):
        seen = fingerprint(frame)
        if kept is not None and similarity(kept, seen) > dedupe_threshold:
            yield Skipped(timestamp_ms)
            continue
        kept = seen
        yield Picked(timestamp_ms, _jpeg(frame))


def _sampled(video: Path, target_fps: float) -> Iterator[tuple[int, Any]]:
    """The first frame at or after each tick. A source with fewer frames than that gives all it has."""
    next_ms = 0.0
    try:
        with av.open(video) as container:
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            for frame in container.decode(stream):
                now = 1000 * (frame.time or 0.0)
                if now + 0.5 < next_ms:  # timestamps are rounded
                    continue
                next_ms = max(next_ms + 1000 / target_fps, now - 1000 / target_fps)
                yield round(now), frame
    except (av.FFmpegError, IndexError) as error:
        raise BadVideo(f"its frames cannot be read: {error}") from error


def fingerprint(frame: Any) -> Grey:
    """The mean grey of each tile."""
    width, height = (max(1, side // TILE // PLACE) * PLACE for side in (frame.width, frame.height))
    small = frame.reformat(width=width, height=height, format="gray", interpolation="AREA")
    return small.to_ndarray().astype(np.int16)  # type: ignore[no-any-return]


def similarity(one: Grey, other: Grey) -> float:
    """The share of tiles that are the same, in the place that differs most.

    Over the whole picture a new caption changes one tile in a hundred, and a hash of 8 by 8 does not see it
    at all. In the place where it stands it changes many.
    """
    if one.shape != other.shape:  # some streams change their size half-way
        return 0.0
    same = np.abs(one - other) <= LEVELS
    rows, columns = one.shape
    places = same.reshape(rows // PLACE, PLACE, columns // PLACE, PLACE)
    return float(places.mean(axis=(1, 3)).min())


def _jpeg(frame: Any) -> bytes:
    buffer = io.BytesIO()
    frame.to_image().save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
