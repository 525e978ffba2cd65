"""Where the libraries are, and what opens their providers if nobody said so."""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

SECRET = "POSTHOUSE_SECRET_PHOTOS_TOKEN"  # noqa: S105 - the name of it
TOKEN_FILE = ".token"  # noqa: S105 - likewise


def library_root() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(os.environ.get("PHOTOS_LIBRARY") or Path(home) / "photos")


def settle(environment: MutableMapping[str, str]) -> None:
    """Commands get a clean environment from their worker, which knows these then. All workers of one machine
    that were told nothing agree on them.
    """
    root = library_root()
    environment.setdefault("PHOTOS_LIBRARY", str(root))
    if SECRET not in environment:
        environment[SECRET] = _own_token(root)


def _own_token(root: Path) -> str:
    """Made once, and only its owner can read it."""
    root.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(root / TOKEN_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return (root / TOKEN_FILE).read_text()
    token = secrets.token_urlsafe(24)
    with os.fdopen(handle, "w") as file:
        file.write(token)
    return token
