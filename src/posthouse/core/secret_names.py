"""What the secrets of commands are called. A definition holds names only; workers have the values."""

from __future__ import annotations

import re

SECRET_PREFIX = "POSTHOUSE_SECRET_"  # noqa: S105 - a name, not a secret
"""Environment variables of a worker that hold secrets begin so."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # also that of a file


def is_secret_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def variable_of(name: str) -> str:
    """Where a secret is: ``dropbox-token`` in POSTHOUSE_SECRET_DROPBOX_TOKEN."""
    return SECRET_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
