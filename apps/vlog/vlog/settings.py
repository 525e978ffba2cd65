"""Settings: environment variables with the prefix VLOG_, read on each access."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from posthouse import PosthouseError
from posthouse.blobs import app_folder

TRUE_VALUES = {"1", "true", "yes", "on"}
MINUTE = 60.0
PUBLIC, SIGNED = "public", "signed"

POSTHOUSE_VARIABLES: dict[str, str | tuple[str, float]] = {
    "VLOG_WORKER_ADMIN_SECRET": "admin_secret",
    "VLOG_WORKER_CLAIM_DURATION_MINUTES": ("simple_claim_seconds", MINUTE),
    "VLOG_WORKER_HEARTBEAT_INTERVAL": ("simple_heartbeat_seconds", 1.0),
    "VLOG_WORKER_OFFLINE_THRESHOLD_MINUTES": ("offline_seconds", MINUTE),
    "VLOG_STALE_JOB_CHECK_INTERVAL": ("rescue_seconds", 1.0),
    "VLOG_SSE_HEARTBEAT_INTERVAL": ("sse_heartbeat_seconds", 1.0),
    "VLOG_SSE_RECONNECT_TIMEOUT": ("sse_retry_seconds", 1.0),
    "VLOG_ALERT_WEBHOOK_URL": "alert_webhook_url",
    "VLOG_ALERT_RATE_LIMIT_SECONDS": ("alert_cooldown_seconds", 1.0),
    "VLOG_ALERT_WEBHOOK_TIMEOUT": ("alert_timeout_seconds", 1.0),
}
"""Variables that set settings of Posthouse."""


def _text(name: str, default: str) -> str:
    return os.environ.get(f"VLOG_{name}") or default


def _list(name: str, default: str) -> list[str]:
    return [word.strip() for word in _text(name, default).split(",") if word.strip()]


def uploads_dir(data_dir: Path) -> Path:
    return Path(_text("UPLOADS_DIR", str(_folder(data_dir) / "uploads"))).expanduser()


def videos_dir(data_dir: Path) -> Path:
    return Path(_text("VIDEOS_DIR", str(_folder(data_dir) / "videos"))).expanduser()


def _folder(data_dir: Path) -> Path:
    """Return the folder below POSTHOUSE_STORAGE_URL. Videos are served from a folder, so a bucket is not used
    for them: then it is one in the data directory.
    """
    return app_folder("vlog") or data_dir / "vlog"


def qualities() -> list[str]:
    """Return the qualities of new videos; those larger than the source are skipped."""
    return _list("QUALITIES", "source,2160p,1440p,1080p,720p,480p,360p")


def critical_qualities() -> list[str] | None:
    """Return the qualities without which a video is not ready; None: all of them."""
    named = _list("CRITICAL_QUALITIES", "all")
    if named == ["all"]:
        return None
    return [] if named == ["none"] else named


def requires() -> list[str]:
    """Return the capabilities that a worker must have to transcode videos."""
    return _list("REQUIRES", "")


def max_upload_bytes() -> int:
    return int(_text("MAX_UPLOAD_BYTES", str(10 * 2**30)))


def max_attempts() -> int:
    return int(_text("MAX_RETRY_ATTEMPTS", "3"))


def stale_timeout() -> float:
    """Return after how many seconds without progress an encoding fails."""
    return float(_text("JOB_STALE_TIMEOUT", "1800"))


def keep_completed_qualities() -> bool:
    return _text("KEEP_COMPLETED_QUALITIES", "true").lower() in TRUE_VALUES


def cleanup_partial_on_failure() -> bool:
    return _text("CLEANUP_PARTIAL_ON_FAILURE", "true").lower() in TRUE_VALUES


def keep_replaced_seconds() -> float:
    """Return how long a replaced output is kept for its current viewers, in seconds."""
    return float(_text("KEEP_REPLACED_SECONDS", "3600"))


def parallel_qualities() -> int:
    """Return how many qualities a worker encodes in parallel: by default one for two cores, at least two."""
    return int(_text("PARALLEL_QUALITIES", str(max(2, (os.cpu_count() or 1) // 2))))


def encoder() -> str:
    """Return the ffmpeg encoder, for example h264_nvenc; auto: the first that works on the machine."""
    return _text("ENCODER", "auto")


def abandoned_seconds() -> float:
    """Return after how many seconds without a change an unfinished upload is deleted."""
    return float(_text("ABANDONED_UPLOAD_SECONDS", str(24 * 3600)))


def preset() -> str:
    return _text("PRESET", "veryfast")


def playback_links() -> str:
    """Return whether links to media are ``public``, without an end, or ``signed`` with one."""
    links = _text("PLAYBACK_LINKS", SIGNED)
    if links not in {PUBLIC, SIGNED}:
        raise PosthouseError(f"VLOG_PLAYBACK_LINKS must be {PUBLIC} or {SIGNED}, not {links!r}")
    return links


def playback_link_lifetime() -> timedelta | None:
    """Return how long a link to media is valid; None: without an end."""
    seconds = float(_text("PLAYBACK_LINK_SECONDS", str(6 * 3600)))
    return None if playback_links() == PUBLIC else timedelta(seconds=seconds)
