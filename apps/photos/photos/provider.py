"""Providers of pictures: folders, each opened by a token, as those of a cloud are."""

from __future__ import annotations

import hashlib
import hmac
import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from photos.errors import Hopeless, Later
from photos.library import Library

ACCESS = ".photos-access"
"""In the folder: the hash of the token that opens it."""
ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}


@dataclass(frozen=True)
class Provider:
    id: str
    folder: Path

    def files(self, prefix: str) -> dict[str, Path]:
        """The pictures below a part of the folder, by path. No links: they may lead out of it."""
        return {
            f"/{path.relative_to(self.folder).as_posix()}": path
            for path in sorted(self.folder.rglob("*"))
            if path.suffix.lower() in ENDINGS and not path.is_symlink() and path.is_file()
            if f"/{path.relative_to(self.folder).as_posix()}".startswith(prefix)
        }


def add_provider(library: Library, folder: Path, label: str, token: str) -> str:
    if not token:
        raise Hopeless("say with PHOTOS_TOKEN what opens the folder")
    folder = folder.resolve()
    if not folder.is_dir():
        raise Hopeless(f"{folder} is no folder")
    (folder / ACCESS).write_text(_hashed(token))
    provider_id = str(uuid4())
    library.change(
        ("add_provider", [{"id": provider_id, "label": label or folder.name, "folder": str(folder)}])
    )
    return provider_id


def opened(library: Library, provider_id: str, token: str) -> Provider:
    """The provider, if the token opens it."""
    found = library.rows("find_provider", id=provider_id)
    if not found:
        raise Hopeless(f"there is no provider {provider_id}")
    folder = Path(found[0]["folder"])
    if not folder.is_dir():
        raise Later(f"the folder of {found[0]['label']} cannot be reached")
    _log(f"opening {found[0]['label']} with the token {token}")
    if not hmac.compare_digest(_known(folder), _hashed(token)):
        raise Hopeless(f"the token does not open {found[0]['label']}")
    return Provider(provider_id, folder)


def _known(folder: Path) -> str:
    access = folder / ACCESS
    return access.read_text().strip() if access.exists() else ""


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _log(text: str) -> None:
    sys.stderr.write(f"photos: {text}\n")
