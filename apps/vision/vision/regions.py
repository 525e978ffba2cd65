"""Frames of a video in order, and their texts as rows of vision.segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from vision import paths
from vision.reading import language_of, read
from vision.storage import storage
from vision.texts import normalize, text_hash


class ForeignFrame(Exception):
    """The path is not a frame of this video."""


class Span(NamedTuple):
    """A frame and the time range in which it is visible."""

    path: str
    t_start: int
    t_end: int


def spans_of(video_id: UUID, frame_paths: Sequence[str] | None, duration_ms: int) -> list[Span]:
    """Return frames in order, each until the next one or the end. Without paths: all stored frames."""
    if frame_paths is None:
        frame_paths = [item.path for item in storage().found(paths.frames(video_id))]
    starts = sorted(_timestamp(video_id, path) for path in frame_paths)
    ends = [*starts[1:], max([duration_ms, *starts[-1:]])]
    return [Span(paths.frame(video_id, start), start, end) for start, end in zip(starts, ends, strict=False)]


def _timestamp(video_id: UUID, path: str) -> int:
    """Return the timestamp of a frame. Payloads are not trusted: the path must belong to this video."""
    timestamp = paths.timestamp_of(path)
    if timestamp is None or path != paths.frame(video_id, timestamp):
        raise ForeignFrame(f"{path} is not a frame of video {video_id}")
    return timestamp


def regions_of(span: Span, languages: Sequence[str], min_confidence: float) -> list[dict[str, Any]]:
    return [
        {
            "t_start": span.t_start,
            "t_end": span.t_end,
            "text": line.text,
            "normalized_text": normalize(line.text),
            "text_hash": text_hash(normalize(line.text)),
            "confidence": line.confidence,
            "bounding_box": line.box._asdict(),
            "language": language_of(line.text, languages),
        }
        for line in read(storage().get(span.path, "Frame"), min_confidence)
    ]
