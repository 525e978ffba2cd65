"""Where things are, and who recognises speech: environment variables that start with CALLS_."""

from __future__ import annotations

import os
from pathlib import Path

PREFIX = "CALLS_"
LOCAL = "local"
SPEECHKIT = "speechkit"


def setting(name: str, default: str = "") -> str:
    return os.environ.get(PREFIX + name) or default


def storage_url() -> str:
    """A folder (``file:///…``) or a bucket (``s3://bucket/prefix``)."""
    return setting("STORAGE_URL") or _own_folder().as_uri()


def s3_options() -> dict[str, str]:
    """What is not set is taken from AWS_… or from the machine's role, as obstore does by itself."""
    names = ("endpoint", "region", "access_key_id", "secret_access_key")
    return {name: value for name in names if (value := setting(f"S3_{name.upper()}"))}


def most_upload_bytes() -> int:
    """How large a recording may be: as large as the cloud's recogniser takes them, unless told otherwise."""
    return int(setting("MOST_UPLOAD_BYTES", str(1024**3)))


def provider() -> str:
    """Who recognises speech: ``local`` or ``speechkit``."""
    return setting("PROVIDER", LOCAL)


def language() -> str:
    """What is spoken, as the cloud is told. The local recogniser knows English only."""
    return setting("LANGUAGE", "en-US")


def speechkit_url() -> str:
    return setting("SPEECHKIT_URL", "https://transcribe.api.cloud.yandex.net")


def operations_url() -> str:
    """Where operations are asked for, which is another host of the cloud."""
    return setting("SPEECHKIT_OPERATIONS_URL", "https://operation.api.cloud.yandex.net")


def speechkit_key() -> str:
    return setting("SPEECHKIT_KEY")


def speechkit_seconds() -> float:
    """So long an answer may take."""
    return float(setting("SPEECHKIT_TIMEOUT_SECONDS", "30"))


def poll_interval_seconds(default: float) -> float:
    return float(setting("POLL_INTERVAL_MS", str(default * 1000))) / 1000


def poll_limit(default: int) -> int:
    """How often an operation is asked for before it is given up."""
    return int(setting("POLL_LIMIT", str(default)))


def poll_deadline(default: str) -> str:
    """How long after the first time it is given up, as ``4h``."""
    return setting("POLL_DEADLINE", default)


def _own_folder() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home).absolute() / "posthouse" / "calls"
