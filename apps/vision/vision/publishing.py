"""Creates files from an original and stores them when they are complete."""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import UUID

from vision import paths
from vision.media import Heard, padded, probe, write_clip, write_hls, write_poster
from vision.storage import storage


class EmptyClip(Exception):
    """The requested time range is outside of the video."""


def publish_hls(original: Path, video_id: UUID, heard: Heard) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_hls(original, Path(folder), paths.PLAYLIST, heard)
        storage().put_folder(paths.proxy(video_id), Path(folder), last=paths.PLAYLIST)


def publish_poster(original: Path, video_id: UUID) -> None:
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "poster.jpg"
        write_poster(original, picture)
        storage().put(paths.poster(video_id), picture)


def publish_clip(original: Path, path: str, asked: tuple[int, int], padding_ms: int, heard: Heard) -> None:
    start, end = padded(*asked, padding_ms, probe(original).duration_ms)
    if end <= start:
        raise EmptyClip(f"the time range {asked[0]} to {asked[1]} ms is outside of the video")
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.mp4"
        write_clip(original, clip, start, end, heard)
        storage().put(path, clip)
