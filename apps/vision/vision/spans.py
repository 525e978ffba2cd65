"""The time ranges in which frames are visible. sample writes them beside the frames, ocr reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from vision import paths
from vision.frame_sampler import DuplicateFrame, EmptyFrame, KeptFrame
from vision.storage import NotStored, storage


class WrongFrame(Exception):
    """The path is not a frame of this video."""


class Span(NamedTuple):
    """A frame and the time range in which it is visible."""

    path: str
    t_start: int
    t_end: int


class SpanRecorder:
    """Collects the ranges of selected frames: each lasts until the next one, or until there is no text."""

    def __init__(self) -> None:
        self.ranges: list[list[int]] = []

    def start(self, timestamp_ms: int) -> None:
        self.end(timestamp_ms)
        self.ranges.append([timestamp_ms])

    def end(self, timestamp_ms: int) -> None:
        if self.ranges and len(self.ranges[-1]) == 1:
            self.ranges[-1].append(timestamp_ms)

    def store(self, video_id: UUID) -> None:
        """Store the ranges. The last one may have no end: that of the video."""
        storage().put(paths.spans(video_id), json.dumps(self.ranges).encode())


def store_frames(
    video_id: UUID, frames: Iterable[KeptFrame | DuplicateFrame | EmptyFrame], percent: Callable[[float], Any]
) -> tuple[list[str], int]:
    """Store the frames to read and their ranges; return their paths and the number of sampled frames."""
    kept, spans, sampled = [], SpanRecorder(), 0
    for sampled, found in enumerate(frames, 1):  # noqa: B007 - the last one is returned
        if isinstance(found, KeptFrame):
            kept.append(paths.frame(video_id, found.timestamp_ms))
            storage().put(kept[-1], found.jpeg)
            spans.start(found.timestamp_ms)
        elif isinstance(found, EmptyFrame):
            spans.end(found.timestamp_ms)
        percent(found.timestamp_ms)
    spans.store(video_id)
    storage().keep_only(paths.frames(video_id), [*kept, paths.spans(video_id)])
    return kept, sampled


def frame_spans(video_id: UUID, frame_paths: Sequence[str] | None, duration_ms: int) -> list[Span]:
    """Return frames in order with their time ranges. Without paths: all stored frames."""
    stored = dict(_stored_ends(video_id))
    if frame_paths is None:
        frame_paths = [
            item.path for item in storage().found(paths.frames(video_id)) if item.path.endswith(".jpg")
        ]
    starts = sorted(_timestamp(video_id, path) for path in frame_paths)
    ends = [*starts[1:], max([duration_ms, *starts[-1:]])]
    return [
        Span(paths.frame(video_id, start), start, stored.get(start, end))
        for start, end in zip(starts, ends, strict=False)
    ]


def _stored_ends(video_id: UUID) -> list[Any]:
    try:
        ranges = json.loads(storage().read(paths.spans(video_id)))
    except NotStored:  # the frames of a payload that was made by hand
        return []
    return [(start, *end) for start, *end in ranges if end]


def _timestamp(video_id: UUID, path: str) -> int:
    """Return the timestamp of a frame. Payloads are not trusted: the path must belong to this video."""
    timestamp = paths.timestamp_of(path)
    if timestamp is None or path != paths.frame(video_id, timestamp):
        raise WrongFrame(f"{path} is not a frame of video {video_id}")
    return timestamp
