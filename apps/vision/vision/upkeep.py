"""Scheduled and other jobs that delete files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from posthouse import Job
from vision import paths, sweeping
from vision.handlers import RETRY, app
from vision.rows import run
from vision.statements import statement
from vision.storage import DENIED, storage

CLIP_LIFE = timedelta(days=30)


@app.job("vision.clip_expire", retry=RETRY, fail_on=DENIED)
def clip_expire(job: Job) -> None:
    """Delete clips older than 30 days."""
    removed = storage().remove_older(paths.CLIPS, CLIP_LIFE, datetime.now(UTC))
    with job.commit() as db:
        run(db, "clips_gone", {"paths": removed})
        job.result = {"removed": len(removed)}


clip_expire.on_schedule("30 3 * * *", overlap="skip", label="Delete clips older than 30 days")


@app.job("vision.discard", retry=RETRY, fail_on=DENIED)
def discard(job: Job, video_id: UUID) -> None:
    """Delete the files of a deleted video."""
    about_it = {"team": job.tenant, "video": video_id}
    jobs = job.step_commit("jobs", lambda db: db.execute(statement("jobs_of"), about_it).fetchall())
    sweeping.remove_files(video_id, [UUID(str(one)) for (one,) in jobs])


@app.job("vision.sweep", retry=RETRY, fail_on=DENIED, timeout="1h")
def sweep(job: Job) -> None:
    """Delete files that belong to no video, and what killed processes left."""
    deleted = job.step_commit("deleted", lambda db: db.execute(statement("videos_deleted")).fetchall())
    gone = [UUID(str(video)) for video, is_idle in deleted if is_idle]
    for video_id in gone:
        sweeping.remove_files(video_id, [])
    files = sweeping.old_videos()
    known = job.step_commit(
        "known", lambda db: db.execute(statement("videos_known"), {"ids": list(files)}).fetchall()
    )
    removed = sweeping.remove_orphans(files, {UUID(str(video)): status for video, status in known})
    with job.commit() as db:
        run(db, "videos_swept", {"ids": gone})
        job.result = {"deleted": len(gone), "orphans": removed}


sweep.on_schedule("15 * * * *", missed="skip", overlap="skip", label="Delete files without a video")
