"""Settings: environment variables with the prefix VISION_."""

from __future__ import annotations

import os

PREFIX = "VISION_"


def setting(name: str, default: str = "") -> str:
    return os.environ.get(PREFIX + name) or default


def default_team() -> str:
    """Return the team that owns originals found in the storage without a registration."""
    return setting("TEAM", "default")


def min_age_seconds() -> float:
    """Return the minimum age of a file in seconds: newer ones may still be being copied."""
    return float(setting("SETTLE_SECONDS", "5"))


def max_upload_bytes() -> int:
    """Return the size limit of uploads over HTTP."""
    return int(setting("MAX_UPLOAD_BYTES", str(20 * 1024**3)))


def ocr_batch() -> int:
    """Return the number of frames per durable step, which is the most a killed worker must repeat."""
    return max(1, int(setting("OCR_BATCH", "50")))


def pipeline_logs() -> bool:
    """Return whether an account of each job is stored as logs/pipeline/{job_id}.json."""
    return setting("PIPELINE_LOGS", "false").lower() in {"1", "true", "yes", "on"}


def model() -> str:
    """Return the folder of the OCR model; empty for the one installed."""
    return setting("MODEL")


def model_languages() -> frozenset[str]:
    """Return the languages that the model in the folder reads; empty: those of the one installed."""
    return frozenset(setting("MODEL_LANGUAGES").replace(",", " ").split())


def ocr_text_height() -> int:
    """Return the height in pixels of the smallest text to read. A smaller value costs more CPU time."""
    return max(4, int(setting("OCR_TEXT_HEIGHT", "16")))


def ocr_chunk() -> int:
    """Return the number of frames per ocr job: the jobs of a video run in parallel."""
    return max(1, int(setting("OCR_CHUNK", "200")))
