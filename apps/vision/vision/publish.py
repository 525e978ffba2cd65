"""Creates files from an original and stores them when they are complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from posthouse_media import is_truncated, measured_duration, probe, write_picture
from vision import paths
from vision.media import POSTER_POSITION, ProgressCallback, clamp_with_padding, write_clip, write_hls
from vision.storage import storage
from vision.workspace import workspace


class EmptyClip(Exception):
    """The requested time range is outside of the video."""


def publish_hls(original: Path, video_id: UUID, on_progress: ProgressCallback) -> int:
    """Store the stream of a video and return its duration in milliseconds."""
    with workspace() as folder:
        write_hls(original, folder, paths.PLAYLIST, on_progress)
        storage().put_folder(paths.proxy(video_id), folder, last=paths.PLAYLIST)
        return round(1000 * measured_duration(folder / paths.PLAYLIST))


def publish_poster(original: Path, video_id: UUID, duration_ms: int) -> bool:
    """Store a poster, if the video has a readable frame, and return whether there is one."""
    with workspace() as folder:
        picture = folder / "poster.jpg"
        if not write_picture(original, picture, at=duration_ms * POSTER_POSITION / 1000):
            return False
        storage().put(paths.poster(video_id), picture)
        return True


def publish_clip(
    original: Path, path: str, time_range: tuple[int, int], padding_ms: int, on_progress: ProgressCallback
) -> None:
    start, end = clamp_with_padding(*time_range, padding_ms, round(1000 * probe(original).duration))
    if end <= start:
        raise EmptyClip(f"the time range {time_range[0]} to {time_range[1]} ms is outside of the video")
    with workspace() as folder:
        clip = folder / "clip.mp4"
        write_clip(original, clip, start, end, on_progress)
        storage().put(path, clip)


def duration_result(stated_ms: int, stream_ms: int) -> dict[str, Any]:
    """Return the duration of a video, and what users see about a file that is shorter than it states."""
    if not is_truncated(stated_ms / 1000, stream_ms / 1000):
        return {"duration_ms": stated_ms, "warning": None}
    warning = (
        f"the file ends early: {stream_ms / 1000:.1f} s of {stated_ms / 1000:.1f} s can be played; "
        "if the upload was incomplete, upload the file again"
    )
    return {"duration_ms": stream_ms, "warning": warning}
