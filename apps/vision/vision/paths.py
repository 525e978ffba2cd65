"""Storage paths of a video."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from uuid import UUID

ORIGINALS = "videos/original"
CLIPS = "videos/clips"
PLAYLIST = "index.m3u8"
_ORIGINAL = re.compile(rf"{ORIGINALS}/([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/master\.mp4")


def original(video_id: UUID) -> str:
    return f"{ORIGINALS}/{video_id}/master.mp4"


def video_of_original(path: str) -> UUID | None:
    match = _ORIGINAL.fullmatch(path)
    return UUID(match[1]) if match else None


def proxy(video_id: UUID) -> str:
    return f"videos/proxy/{video_id}"


def playlist(video_id: UUID) -> str:
    return f"{proxy(video_id)}/{PLAYLIST}"


def poster(video_id: UUID) -> str:
    return f"thumbs/{video_id}/poster.jpg"


def frames(video_id: UUID) -> str:
    return f"frames/{video_id}"


def frame(video_id: UUID, timestamp_ms: int) -> str:
    return f"{frames(video_id)}/{timestamp_ms}.jpg"


def timestamp_of(frame_path: str) -> int | None:
    stem = PurePosixPath(frame_path).stem
    return int(stem) if stem.isdecimal() else None


def clip(video_id: UUID, clip_id: str) -> str:
    return f"{CLIPS}/{video_id}/{clip_id}.mp4"


def job_log(job_id: UUID) -> str:
    return f"logs/pipeline/{job_id}.json"
