"""Storage paths of a video."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from uuid import UUID

ORIGINALS = "videos/original"
PROXIES = "videos/proxy"
CLIPS = "videos/clips"
FRAMES = "frames"
THUMBS = "thumbs"
KINDS = (ORIGINALS, PROXIES, CLIPS, FRAMES, THUMBS)
"""Folders that have a folder per video."""
PLAYLIST = "index.m3u8"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ORIGINAL = re.compile(rf"{ORIGINALS}/({_UUID.pattern})/master\.mp4")


def original(video_id: UUID) -> str:
    return f"{ORIGINALS}/{video_id}/master.mp4"


def video_of_original(path: str) -> UUID | None:
    match = _ORIGINAL.fullmatch(path)
    return UUID(match[1]) if match else None


def proxy(video_id: UUID) -> str:
    return f"{PROXIES}/{video_id}"


def playlist(video_id: UUID) -> str:
    return f"{proxy(video_id)}/{PLAYLIST}"


def thumbs(video_id: UUID) -> str:
    return f"{THUMBS}/{video_id}"


def poster(video_id: UUID) -> str:
    return f"{thumbs(video_id)}/poster.jpg"


def thumb(video_id: UUID, timestamp_ms: int) -> str:
    return f"{thumbs(video_id)}/{timestamp_ms}.jpg"


def frames(video_id: UUID) -> str:
    return f"{FRAMES}/{video_id}"


def frame(video_id: UUID, timestamp_ms: int) -> str:
    return f"{frames(video_id)}/{timestamp_ms}.jpg"


def spans(video_id: UUID) -> str:
    return f"{frames(video_id)}/spans.json"


def timestamp_of(frame_path: str) -> int | None:
    stem = PurePosixPath(frame_path).stem
    return int(stem) if stem.isdecimal() else None


def clips(video_id: UUID) -> str:
    return f"{CLIPS}/{video_id}"


def clip(video_id: UUID, clip_id: str) -> str:
    return f"{clips(video_id)}/{clip_id}.mp4"


def job_log(job_id: UUID) -> str:
    return f"logs/pipeline/{job_id}.json"


def folders_of(video_id: UUID) -> list[str]:
    """Return the folders with all files of a video."""
    return [f"{kind}/{video_id}" for kind in KINDS]


def video_id_of(path: str) -> UUID | None:
    """Return the video to which a file belongs."""
    kind = next((kind for kind in KINDS if path.startswith(f"{kind}/")), None)
    name = path.removeprefix(f"{kind}/").partition("/")[0]
    return UUID(name) if kind and _UUID.fullmatch(name) else None
