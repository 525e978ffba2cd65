"""Selects the frames of a video to read. Only one frame is in memory at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt
from av.stream import Disposition

from posthouse_media import NotAVideo
from vision.detector import bounds, detect_boxes, round_to_grid
from vision.known_texts import KnownTexts
from vision.settings import ocr_text_height

Tiles = npt.NDArray[np.int16]

TILE = 3
"""Side of a tile in pixels. In eight short videos (720p and 270p, crf 20 and 28, with and without noise)
whose caption changes by one digit, 3 found exactly the changes; 4 missed some of 270p, 8 nearly all."""
BLOCK_TILES = 8
"""Side of a region in tiles: about the size of one or two letters."""
GREY_TOLERANCE = 12
"""Grey levels by which a tile must change; compression and noise change it by less."""
SEARCH_TEXT_PIXELS = 6
"""Height of the smallest text in the image in which texts are looked for. Reading uses more."""
JPEG_QUALITY = 92


class KeptFrame(NamedTuple):
    """A frame to read."""

    timestamp_ms: int
    jpeg: bytes


class DuplicateFrame(NamedTuple):
    """A frame with the same texts as the last one to read."""

    timestamp_ms: int


class EmptyFrame(NamedTuple):
    """A frame without text."""

    timestamp_ms: int


def sample_frames(
    video: Path, target_fps: float, dedupe_threshold: float
) -> Iterator[KeptFrame | DuplicateFrame | EmptyFrame]:
    """Yield the frames at this rate.

    A frame similar to the one before is skipped. In other frames texts are looked for in a reduced image; the
    frame is picked if they differ from the known ones. With a threshold of 1, all frames are picked.
    """
    previous: Tiles | None = None
    texts = KnownTexts()
    for timestamp_ms, frame in _sampled(video, target_fps):
        if dedupe_threshold >= 1:
            yield KeptFrame(timestamp_ms, _jpeg(frame))
            continue
        current = fingerprint(frame)
        if previous is not None and similarity(previous, current) > dedupe_threshold:
            yield DuplicateFrame(timestamp_ms)
            continue
        previous = current
        grey, boxes = _find_texts(frame)
        if boxes and texts.match(grey, boxes):
            yield DuplicateFrame(timestamp_ms)
            continue
        texts.replace(grey, boxes)
        yield KeptFrame(timestamp_ms, _jpeg(frame)) if boxes else EmptyFrame(timestamp_ms)


def _find_texts(frame: Any) -> tuple[Any, list[tuple[float, ...]]]:
    """Return the frame in grey, and where it has texts."""
    scale = min(1.0, SEARCH_TEXT_PIXELS / ocr_text_height())
    width, height = round_to_grid(frame.width * scale), round_to_grid(frame.height * scale)
    small = frame.reformat(width=width, height=height, format="bgr24", interpolation="AREA").to_ndarray()
    grey = _rotated(frame.reformat(format="gray").to_ndarray(), frame)
    small = _rotated(small, frame)
    factor = np.array([grey.shape[1] / small.shape[1], grey.shape[0] / small.shape[0]], np.float32)
    return grey, [bounds(box * factor) for box in detect_boxes(small)]


def _rotated(picture: Any, frame: Any) -> Any:
    """Return the picture as players show it."""
    return np.ascontiguousarray(np.rot90(picture, round(frame.rotation / 90) % 4))


def _sampled(video: Path, target_fps: float) -> Iterator[tuple[int, Any]]:
    """Yield the first frame at or after each tick; all frames if the source has fewer."""
    next_ms = 0.0
    for now, frame in _decoded(video):
        if now + 0.5 < next_ms:  # timestamps are rounded
            continue
        next_ms = max(next_ms + 1000 / target_fps, now - 1000 / target_fps)
        yield max(0, round(now)), frame


def _decoded(video: Path) -> Iterator[tuple[float, Any]]:
    """Yield the milliseconds since the start and the frame. Damaged packets are left out, as players do."""
    try:
        with av.open(str(video), metadata_errors="replace") as container:
            streams = [
                each for each in container.streams.video if not each.disposition & Disposition.attached_pic
            ]
            streams[0].thread_type = "AUTO"
            start = (container.start_time or 0) / av.time_base  # of MPEG-TS about 1.4 s
            for packet in container.demux(streams[0]):
                for frame in _frames_of(packet):
                    yield 1000 * ((frame.time or 0.0) - start), frame
    except (av.FFmpegError, OSError, IndexError) as error:
        raise NotAVideo("cannot read the frames of the video") from error


def _frames_of(packet: Any) -> list[Any]:
    try:
        return list(packet.decode())
    except av.FFmpegError:
        return []


def fingerprint(frame: Any) -> Tiles:
    """Return the mean grey level of each tile."""
    width, height = (
        max(1, side // TILE // BLOCK_TILES) * BLOCK_TILES for side in (frame.width, frame.height)
    )
    small = frame.reformat(width=width, height=height, format="gray", interpolation="AREA")
    return small.to_ndarray().astype(np.int16)  # type: ignore[no-any-return]


def similarity(one: Tiles, other: Tiles) -> float:
    """Return the share of equal tiles in the region that differs most.

    A new caption changes one tile in a hundred of the whole frame, which a hash of 8 by 8 does not detect,
    but many tiles of its region.
    """
    if one.shape != other.shape:  # some streams change their size
        return 0.0
    same = np.abs(one - other) <= GREY_TOLERANCE
    rows, columns = one.shape
    blocks = same.reshape(rows // BLOCK_TILES, BLOCK_TILES, columns // BLOCK_TILES, BLOCK_TILES)
    return float(blocks.mean(axis=(1, 3)).min())


def _jpeg(frame: Any) -> bytes:
    from PIL import Image  # noqa: PLC0415 - needed by few jobs

    buffer = io.BytesIO()
    Image.fromarray(_rotated(frame.to_ndarray(format="rgb24"), frame)).save(
        buffer, "JPEG", quality=JPEG_QUALITY
    )
    return buffer.getvalue()
