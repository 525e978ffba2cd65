"""What can be set, by environment variables. Read when asked for: workers, server and demo differ in them."""

from __future__ import annotations

import os
from pathlib import Path

ON = {"1", "true", "yes", "on"}


def _text(name: str, default: str) -> str:
    return os.environ.get(f"VLOG_{name}") or default


def _words(name: str, default: str) -> list[str]:
    return [word.strip() for word in _text(name, default).split(",") if word.strip()]


def uploads_dir(data_dir: Path) -> Path:
    return Path(_text("UPLOADS_DIR", str(data_dir / "vlog" / "uploads"))).expanduser()


def videos_dir(data_dir: Path) -> Path:
    return Path(_text("VIDEOS_DIR", str(data_dir / "vlog" / "videos"))).expanduser()


def qualities() -> list[str]:
    """The rungs of the ladder that a new video gets, as far as it is large enough."""
    return _words("QUALITIES", "2160p,1440p,1080p,720p,480p,360p")


def requires() -> list[str]:
    """Capabilities without which a worker gets no video to transcode."""
    return _words("REQUIRES", "")


def max_upload_bytes() -> int:
    return int(_text("MAX_UPLOAD_BYTES", str(10 * 2**30)))


def max_attempts() -> int:
    return int(_text("MAX_RETRY_ATTEMPTS", "3"))


def stale_timeout() -> float:
    """The longest that a video may be transcoded, in seconds."""
    return float(_text("JOB_STALE_TIMEOUT", "1800"))


def keep_completed_qualities() -> bool:
    return _text("KEEP_COMPLETED_QUALITIES", "true").lower() in ON


def cleanup_partial_on_failure() -> bool:
    return _text("CLEANUP_PARTIAL_ON_FAILURE", "true").lower() in ON


def keep_replaced_seconds() -> float:
    """How long viewers may go on with an output that was replaced."""
    return float(_text("KEEP_REPLACED_SECONDS", "3600"))


def parallel_qualities() -> int:
    return int(_text("PARALLEL_QUALITIES", "2"))


def encoder() -> str:
    """As ffmpeg calls it: on a machine with a GPU for instance h264_nvenc."""
    return _text("ENCODER", "libx264")


def preset() -> str:
    return _text("PRESET", "veryfast")
