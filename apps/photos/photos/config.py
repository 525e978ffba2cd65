"""Settings: environment variables with the prefix PHOTOS_, and their defaults."""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

TOKEN_VARIABLE = "POSTHOUSE_SECRET_PHOTOS_TOKEN"  # noqa: S105 - a name, not a secret
TOKEN_FILE = ".token"  # noqa: S105 - likewise


def library_root() -> Path:
    """Return the folder of all libraries, each in a folder with the name of its tenant."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(os.environ.get("PHOTOS_LIBRARY") or Path(home) / "posthouse" / "photos")


def local_folder(url: str) -> Path | None:
    """Return the folder of a storage URL; None for a bucket, in which commands cannot work."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def max_upload_bytes() -> int:
    """Return the size limit of uploaded photos."""
    return int(os.environ.get("PHOTOS_MAX_UPLOAD_BYTES") or 50 * 1024**2)


def watch_schedule() -> str:
    """Return when the folders of all libraries are checked for changes; empty for never."""
    schedule = os.environ.get("PHOTOS_WATCH") or "* * * * *"
    return "" if schedule == "off" else schedule


def apply_defaults(environment: MutableMapping[str, str], folder: Path | None = None) -> None:
    """Set the defaults in the environment of the worker, which passes them to commands.

    All workers of a machine without explicit settings use the same values. ``folder``: the library unless
    PHOTOS_LIBRARY is set.
    """
    root = Path(environment.get("PHOTOS_LIBRARY") or folder or library_root())
    environment.setdefault("PHOTOS_LIBRARY", str(root))
    if TOKEN_VARIABLE not in environment:
        environment[TOKEN_VARIABLE] = _load_or_create_token(root)


def _load_or_create_token(root: Path) -> str:
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
