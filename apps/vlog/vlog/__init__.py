"""Transcodes uploaded videos to HLS quality ladders on remote workers."""

from vlog.dispatch import use_redis_settings

use_redis_settings()  # before the settings are read

from vlog.handlers import app  # noqa: E402

__all__ = ["app"]
