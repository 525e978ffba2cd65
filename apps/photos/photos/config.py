"""Defaults for the library folder and the provider token."""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

SECRET = "POSTHOUSE_SECRET_PHOTOS_TOKEN"  # noqa: S105 - a name, not a secret
TOKEN_FILE = ".token"  # noqa: S105 - likewise


def library_root() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(os.environ.get("PHOTOS_LIBRARY") or Path(home) / "photos")


def apply_defaults(environment: MutableMapping[str, str], folder: Path | None = None) -> None:
    """Set the defaults in the environment of the worker, which passes them to commands.

    All workers of a machine without explicit settings use the same values. ``folder``: the library unless
    PHOTOS_LIBRARY is set.
    """
    root = Path(environment.get("PHOTOS_LIBRARY") or folder or library_root())
    environment.setdefault("PHOTOS_LIBRARY", str(root))
    if SECRET not in environment:
        environment[SECRET] = _own_token(root)


def _own_token(root: Path) -> str:
    """Return the token, generated once in a file that only its owner can read."""
    root.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(root / TOKEN_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return (root / TOKEN_FILE).read_text()
    token = secrets.token_urlsafe(24)
    with os.fdopen(handle, "w") as file:
        file.write(token)
    return token
