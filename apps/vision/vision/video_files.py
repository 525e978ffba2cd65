"""Files of videos in the storage: finds new ones, and deletes those of deleted videos or of no video."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

from posthouse import Job
from vision import paths
from vision.db import run, sql
from vision.storage import storage

ORPHAN_AGE = timedelta(days=1)
"""Age after which no job is still about to use a file that has no video."""
_DERIVED = (paths.PROXIES, paths.FRAMES, paths.THUMBS, paths.CLIPS)


def find_originals(min_age_seconds: float) -> dict[UUID, str]:
    """Return the paths of original videos that have not changed for some time."""
    before = datetime.now(UTC) - timedelta(seconds=min_age_seconds)
    listed = ((paths.video_of_original(item.path), item) for item in storage().found(paths.ORIGINALS))
    return {video_id: item.path for video_id, item in listed if video_id and item.modified <= before}


def discard(job: Job, video_id: UUID) -> None:
    """Delete the files of a deleted video, and the logs of its jobs."""
    deleted = {"team": job.tenant, "video": video_id}
    jobs = job.step_commit("jobs", lambda db: db.execute(sql("jobs_ids"), deleted).fetchall())
    _remove_files(video_id, [UUID(str(one)) for (one,) in jobs])


def sweep(job: Job) -> None:
    """Delete the files of deleted videos and of none. Each list is a step: all attempts use the same one."""
    deleted = job.step_commit("deleted", lambda db: db.execute(sql("videos_deleted")).fetchall())
    idle = [UUID(str(video)) for video, is_idle in deleted if is_idle]
    for video_id in idle:
        _remove_files(video_id, [])
    files = _folders_of_old_videos()
    known = job.step_commit(
        "known", lambda db: db.execute(sql("videos_status"), {"ids": list(files)}).fetchall()
    )
    removed = _remove_orphans(files, {UUID(str(video)): status for video, status in known})
    with job.commit() as db:
        run(db, "videos_remove", {"ids": idle})
        job.result = {"deleted": len(idle), "orphans": removed}


def _remove_files(video_id: UUID, jobs: Iterable[UUID]) -> None:
    for prefix in paths.folders_of(video_id):
        storage().remove_prefix(prefix)
    storage().remove(paths.job_log(job) for job in jobs)


def _folders_of_old_videos() -> dict[UUID, set[str]]:
    """Return the videos with files that jobs made long ago, and their folders."""
    before = datetime.now(UTC) - ORPHAN_AGE
    found: dict[UUID, set[str]] = {}
    for kind in _DERIVED:
        for item in storage().found(kind):
            video_id = paths.video_id_of(item.path)
            if video_id is not None and item.modified < before:
                found.setdefault(video_id, set()).add(f"{kind}/{video_id}")
    return found


def _remove_orphans(files: Mapping[UUID, Iterable[str]], known: Mapping[UUID, str]) -> int:
    """Delete the folders of unknown videos, and the frames of ready ones; return how many."""
    storage().remove_unfinished(ORPHAN_AGE, datetime.now(UTC))
    removed = 0
    for video_id, folders in files.items():
        for folder in folders:
            if video_id not in known or (known[video_id] == "ready" and folder == paths.frames(video_id)):
                storage().remove_prefix(folder)
                removed += 1
    return removed
