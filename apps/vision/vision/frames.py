"""Selects the frames of a video to read. Only one frame is in memory at a time."""

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
"""Side of a tile in pixels. In eight short videos (720p and 270p, crf 20 and 28, with and without noise)
whose caption changes by one digit, 3 found exactly the changes; 4 missed some of 270p, 8 nearly all."""
PLACE = 8
"""Side of a region in tiles: about the size of one or two letters."""
LEVELS = 12
"""Grey levels by which a tile must change; compression and noise change it by less."""
QUALITY = 92


class Picked(NamedTuple):
    timestamp_ms: int
    jpeg: bytes


class Skipped(NamedTuple):
    timestamp_ms: int


def pick(video: Path, target_fps: float, dedupe_threshold: float) -> Iterator[Picked | Skipped]:
    """Yield the frames at this rate; those similar to the last selected one are skipped."""
    kept: Grey | None = None
    for timestamp_ms, frame in _sampled(video, target_fps):
        seen = fingerprint(frame)
        if kept is not None and similarity(kept, seen) > dedupe_threshold:
            yield Skipped(timestamp_ms)
            continue
        kept = seen
        yield Picked(timestamp_ms, _jpeg(frame))


def _sampled(video: Path, target_fps: float) -> Iterator[tuple[int, Any]]:
    """Yield the first frame at or after each tick; all frames if the source has fewer."""
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
        raise BadVideo(f"cannot read the frames of the video: {error}") from error


def fingerprint(frame: Any) -> Grey:
    """Return the mean grey level of each tile."""
    width, height = (max(1, side // TILE // PLACE) * PLACE for side in (frame.width, frame.height))
    small = frame.reformat(width=width, height=height, format="gray", interpolation="AREA")
    return small.to_ndarray().astype(np.int16)  # type: ignore[no-any-return]


def similarity(one: Grey, other: Grey) -> float:
    """Return the share of equal tiles in the region that differs most.

    A new caption changes one tile in a hundred of the whole frame, which a hash of 8 by 8 does not detect,
    but many tiles of its region.
    """
    if one.shape != other.shape:  # some streams change their size
        return 0.0
    same = np.abs(one - other) <= LEVELS
    rows, columns = one.shape
    places = same.reshape(rows // PLACE, PLACE, columns // PLACE, PLACE)
    return float(places.mean(axis=(1, 3)).min())


def _jpeg(frame: Any) -> bytes:
    buffer = io.BytesIO()
    frame.to_image().save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
