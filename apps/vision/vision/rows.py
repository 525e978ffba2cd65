"""What the jobs read and write about a video."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg

from posthouse import Job
from vision import paths
from vision.db import sql


class VideoNotFound(Exception):
    """The video does not exist in this team."""


def begin_stage(job: Job, video_id: UUID, path: str | None = None) -> dict[str, Any]:
    """Mark the video as processing and return its row."""
    return load_video(job, "video_begin", video_id, path)


def load_video(job: Job, statement: str, video_id: UUID, path: str | None) -> dict[str, Any]:
    """Return duration and options of a video of the job's team. Payloads are not trusted."""
    if path is not None and path != paths.original(video_id):
        raise VideoNotFound(f"{path} is not the original of video {video_id}")

    def load(db: psycopg.Connection[Any]) -> dict[str, Any]:
        row = db.execute(sql(statement), {"video": video_id, "team": job.tenant}).fetchone()
        if row is None:
            raise VideoNotFound(f"video {video_id} does not exist")
        return {"duration_ms": row[0], "options": row[1]}

    return job.step_commit("video", load)  # type: ignore[no-any-return]


def run(db: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> None:
    db.execute(sql(name), parameters)


def progress_callback(job: Job, total_ms: int | None) -> Callable[[float], Any]:
    return lambda done_ms: job.progress(min(100.0, 100 * done_ms / max(total_ms or 0, 1)))


def stage_options(kind: Any, video_id: UUID, part: int | None = None) -> Any:
    """Return the job options of a stage: one active job of each kind, or of each part of it, per video."""
    suffix = "" if part is None else f":{part}"
    return {"dedupe_key": f"{kind.kind}:{video_id}{suffix}", "subject": str(video_id)}
