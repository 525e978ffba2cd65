"""Deletes files: of deleted videos, and those that belong to no video."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

from vision import paths
from vision.storage import storage

SETTLED = timedelta(days=1)
"""Age after which no job is still about to use a file that has no video."""
_MADE = (paths.PROXIES, paths.FRAMES, paths.THUMBS, paths.CLIPS)


def remove_files(video_id: UUID, jobs: Iterable[UUID]) -> None:
    """Delete all files of a video, and the accounts of its jobs."""
    for prefix in paths.all_of(video_id):
        storage().remove_prefix(prefix)
    storage().remove(paths.job_log(job) for job in jobs)


def old_videos() -> dict[UUID, set[str]]:
    """Return the videos with files that jobs made long ago, and their folders."""
    before = datetime.now(UTC) - SETTLED
    found: dict[UUID, set[str]] = {}
    for kind in _MADE:
        for item in storage().found(kind):
            video_id = paths.video_of(item.path)
            if video_id is not None and item.modified < before:
                found.setdefault(video_id, set()).add(f"{kind}/{video_id}")
    return found


def remove_orphans(files: Mapping[UUID, Iterable[str]], known: Mapping[UUID, str]) -> int:
    """Delete the folders of unknown videos, and the frames of ready ones; return how many."""
    storage().remove_unfinished(SETTLED, datetime.now(UTC))
    removed = 0
    for video_id, folders in files.items():
        for folder in folders:
            if video_id not in known or (known[video_id] == "ready" and folder == paths.frames(video_id)):
                storage().remove_prefix(folder)
                removed += 1
    return removed
