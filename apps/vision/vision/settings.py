"""Where things are: environment variables that start with VISION_."""

from __future__ import annotations

import os
from pathlib import Path

PREFIX = "VISION_"


def setting(name: str, default: str = "") -> str:
    return os.environ.get(PREFIX + name) or default


def storage_url() -> str:
    """A folder (``file:///…``) or a bucket (``s3://bucket/prefix``)."""
    return setting("STORAGE_URL") or _own_folder().as_uri()


def s3_options() -> dict[str, str]:
    """What is not set is taken from AWS_… or from the machine's role, as obstore does by itself."""
    names = {
        "endpoint": "S3_ENDPOINT",
        "region": "S3_REGION",
        "access_key_id": "S3_ACCESS_KEY_ID",
        "secret_access_key": "S3_SECRET_ACCESS_KEY",
    }
    return {option: value for option, name in names.items() if (value := setting(name))}


def default_team() -> str:
    """Who gets the videos that somebody put into the storage without saying so here."""
    return setting("TEAM", "default")


def settle_seconds() -> float:
    """So old a file must be before it is taken: a younger one may still be being copied."""
    return float(setting("SETTLE_SECONDS", "5"))


def most_upload_bytes() -> int:
    """How large an original may be that comes over HTTP."""
    return int(setting("MOST_UPLOAD_BYTES", str(20 * 1024**3)))


def ocr_batch() -> int:
    """Frames that are read in one durable step: a killed worker leaves fewer than that to be read again."""
    return max(1, int(setting("OCR_BATCH", "50")))


def _own_folder() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home).absolute() / "posthouse" / "vision"
