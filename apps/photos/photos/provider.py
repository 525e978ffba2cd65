"""Providers of photos: folders protected by a token, like cloud folders."""

from __future__ import annotations

import hashlib
import hmac
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from photos.errors import PermanentError, TemporaryError
from photos.library import Library

ACCESS_FILE = ".photos-access"
"""File in the folder with the hash of its token."""
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,99}")
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}


@dataclass(frozen=True)
class Provider:
    id: str
    folder: Path

    def files(self, prefix: str) -> dict[str, Path]:
        """Return the photos below a path. Symbolic links are skipped, because they may leave the folder."""
        return {
            f"/{path.relative_to(self.folder).as_posix()}": path
            for path in sorted(self.folder.rglob("*"))
            if path.suffix.lower() in SUFFIXES and not path.is_symlink() and path.is_file()
            if f"/{path.relative_to(self.folder).as_posix()}".startswith(prefix)
        }


def add_provider(library: Library, folder: Path, label: str, token: str, provider_id: str = "") -> str:
    """Register a folder and return the id of the provider."""
    if not token:
        raise PermanentError("no token: set PHOTOS_TOKEN to the token that protects the folder")
    folder = folder.resolve()
    if not folder.is_dir():
        raise PermanentError(f"{folder} is not a folder")
    (folder / ACCESS_FILE).write_text(_hash(token))
    provider_id = provider_id or str(uuid4())
    library.change(
        ("provider_insert", [{"id": provider_id, "label": label or folder.name, "folder": str(folder)}])
    )
    return provider_id


def connect(library: Library, root: Path, name: str, token: str) -> dict[str, str]:
    """Register a folder inside the library of the tenant. Other folders need an operator: add-provider."""
    if not FOLDER_NAME.fullmatch(name):
        raise PermanentError(f"invalid folder {name!r}: use the name of a folder inside the library")
    return {"provider_id": add_provider(library, root / name, name, token), "label": name}


def open_provider(library: Library, provider_id: str, token: str) -> Provider:
    """Return the provider after checking the token."""
    rows = library.rows("provider_get", id=provider_id)
    if not rows:
        raise PermanentError(f"provider {provider_id} does not exist")
    folder = Path(rows[0]["folder"])
    if not folder.is_dir():
        raise TemporaryError(f"cannot access the folder of provider {rows[0]['label']}: {folder}")
    # Deliberately logs the token, to show that Posthouse masks secrets in the output of commands.
    _log(f"opening provider {rows[0]['label']} with token {token}")
    if not hmac.compare_digest(_stored_hash(folder), _hash(token)):
        raise PermanentError(f"access to provider {rows[0]['label']} denied: PHOTOS_TOKEN is wrong")
    return Provider(provider_id, folder)


def _stored_hash(folder: Path) -> str:
    access = folder / ACCESS_FILE
    return access.read_text().strip() if access.exists() else ""


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _log(text: str) -> None:
    sys.stderr.write(f"photos: {text}\n")
