"""What the stages of a video share: options of their jobs, errors, and access to the video."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg

from posthouse import Job, Limit, Retry
from posthouse_media import NotAVideo
from vision import paths
from vision.db import sql
from vision.detector import ModelUnavailable
from vision.ocr import UnknownLanguage
from vision.publish import EmptyClip
from vision.spans import WrongFrame
from vision.storage import DENIED, NotStored


class VideoNotFound(Exception):
    """The video does not exist in this team."""


RETRY = Retry("1m", "5m", "15m", jitter=0.2)
PERMANENT_ERRORS = (
    EmptyClip,
    WrongFrame,
    ModelUnavailable,
    NotAVideo,
    NotStored,
    UnknownLanguage,
    VideoNotFound,
    psycopg.errors.IntegrityError,
    *DENIED,
)
"""Errors that a retry cannot fix."""
JOB_OPTIONS: dict[str, Any] = {"retry": RETRY, "fail_on": PERMANENT_ERRORS}
OCR_OPTIONS = {**JOB_OPTIONS, "timeout": "4h"}
STAGE_OPTIONS = {**OCR_OPTIONS, "limits": [Limit(running=1, per="key")], "limit_by": "video_id"}
"""At most one running job of the kind per video."""


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


def progress_callback(job: Job, total_ms: int | None) -> Callable[[float], Any]:
    return lambda done_ms: job.progress(min(100.0, 100 * done_ms / max(total_ms or 0, 1)))


def stage_options(kind: Any, video_id: UUID, part: int | None = None) -> Any:
    """Return the job options of a stage: one active job of each kind, or of each part of it, per video."""
    suffix = "" if part is None else f":{part}"
    return {"dedupe_key": f"{kind.kind}:{video_id}{suffix}", "subject": str(video_id)}
