"""Names of the secrets of commands. Definitions contain names only; workers have the values."""

from __future__ import annotations

import re

SECRET_PREFIX = "POSTHOUSE_SECRET_"  # noqa: S105 - a prefix, not a secret
"""Prefix of the environment variables of a worker that contain secrets."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # must also be a valid file name


def is_secret_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def variable_of(name: str) -> str:
    """Return the environment variable of a secret: POSTHOUSE_SECRET_DROPBOX_TOKEN for ``dropbox-token``."""
    return SECRET_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
