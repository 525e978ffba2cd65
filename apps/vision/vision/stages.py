"""What the stages of a video share: options of their jobs, and errors."""

from __future__ import annotations

from typing import Any

import psycopg

from posthouse import Limit, Retry
from posthouse_media import NotAVideo
from vision.detector import ModelUnavailable
from vision.ocr import UnknownLanguage
from vision.publish import EmptyClip
from vision.rows import VideoNotFound
from vision.spans import WrongFrame
from vision.storage import DENIED, NotStored

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
