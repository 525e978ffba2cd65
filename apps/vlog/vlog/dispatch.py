"""Redis: settings under the names of this application, and the channels of its videos.

The settings apply where those of Posthouse are not set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

REDIS_VARIABLES = {
    "VLOG_REDIS_URL": "POSTHOUSE_REDIS_URL",
    "VLOG_JOB_QUEUE_MODE": "POSTHOUSE_DISPATCH",
    "VLOG_REDIS_POOL_SIZE": "POSTHOUSE_REDIS_POOL_SIZE",
}


def use_redis_settings() -> None:
    """Set the settings of Posthouse that are not set. Without a Redis URL the mode is ``database``."""
    given = {name: os.environ[alias] for alias, name in REDIS_VARIABLES.items() if os.environ.get(alias)}
    if "POSTHOUSE_REDIS_URL" not in {*given, *os.environ}:
        return
    for name, value in given.items():
        os.environ.setdefault(name, value)


def channel(change: str, job: Mapping[str, Any]) -> str | None:
    """Return the Pub/Sub channel of a video: ``transcode_progress:{id}`` or ``transcode_complete:{id}``."""
    if job["definition_key"] != "vlog.transcode":
        return None
    return f"transcode_{change}:{str(job['subject']).removeprefix('vlog/')}"
