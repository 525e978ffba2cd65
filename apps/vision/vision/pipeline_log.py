"""An account of each job of the pipeline in the storage, for tools that do not read the database."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar, cast

from posthouse import Job
from vision import paths
from vision.settings import pipeline_logs
from vision.storage import storage

P = ParamSpec("P")
R = TypeVar("R")


def log_attempts(handler: Callable[P, R]) -> Callable[P, R]:
    """Make a handler store an account of each attempt, if VISION_PIPELINE_LOGS is set.

    It is added to those of earlier attempts. A job does not fail because its account cannot be stored.
    """

    @functools.wraps(handler)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
        started, error = datetime.now(UTC), None
        try:
            return handler(*args, **kwargs)
        except Exception as raised:
            error = raised
            raise
        finally:
            if pipeline_logs():
                _append_attempt(cast("Job", args[0]), kwargs.get("video_id"), started, error)

    return attempt


def _append_attempt(job: Job, video_id: Any, started: datetime, error: Exception | None) -> None:
    path, ended = paths.job_log(job.id), datetime.now(UTC)
    status = "done" if error is None else "failed"
    failure = None if error is None else {"type": type(error).__name__, "message": str(error)}
    attempt = {
        "attempt": job.attempt,
        "status": status,
        "started_at": started.isoformat(),
        "finished_at": ended.isoformat(),
        "duration_ms": round((ended - started).total_seconds() * 1000),
        "error": failure,
    }
    try:
        log = json.loads(storage().read(path)) if storage().exists(path) else {"attempts": []}
        log = {
            "job_id": str(job.id),
            "video_id": str(video_id),
            "job_type": job.kind.removeprefix("vision."),
            "team_id": job.tenant,
            "status": status,
            "retry_count": job.attempt - 1,
            "attempts": [*log["attempts"], attempt],
        }
        storage().put(path, json.dumps(log, indent=2).encode())
    except Exception as storage_error:  # noqa: BLE001 - any error of the storage
        job.log.warning("account of the job not stored path=%s error=%s", path, storage_error)
