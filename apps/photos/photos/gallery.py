"""What the page shows of a library: photos with tags, keywords and models, and the files of a photo."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from photos.config import TOKEN_VARIABLE, library_root
from photos.errors import PermanentError
from photos.library import DATABASE, TENANT, Library
from photos.provider import add_provider

PICTURES = "pictures"
"""The folder of a library that was created on the page."""


def library_folder(tenant: str) -> Path:
    """Return the folder of the library of a tenant, which may not exist."""
    if not TENANT.fullmatch(tenant):
        raise PermanentError(f"tenant {tenant!r} cannot have a library: its name is no valid folder name")
    return library_root() / tenant


def has_library(tenant: str) -> bool:
    return bool(TENANT.fullmatch(tenant)) and (library_folder(tenant) / DATABASE).is_file()


def create_library(tenant: str, provider_id: str) -> None:
    """Create the library of a tenant with an empty folder for photos."""
    folder = library_folder(tenant) / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    with Library(library_folder(tenant)) as library:
        add_provider(library, folder, "Pictures", os.environ[TOKEN_VARIABLE], provider_id)


def summary(tenant: str) -> dict[str, Any]:
    """Return the number of photos, the providers and the models of a library."""
    with Library(library_folder(tenant), create=False) as library:
        models = library.rows("models_list")
        return {
            "tenant_id": tenant,
            "pictures": library.rows("pictures_count", keyword=None)[0]["total"],
            "providers": [{"id": row["id"], "label": row["label"]} for row in library.rows("provider_list")],
            "keywords": library.rows("keywords_count"),
            "models": [{**model, "keywords": json.loads(model["keywords"])} for model in models],
        }


def pictures_page(tenant: str, keyword: str | None, limit: int, offset: int) -> dict[str, Any]:
    """Return a page of photos, the newest first, and their total number."""
    with Library(library_folder(tenant), create=False) as library:
        rows = library.rows("pictures_page", keyword=keyword, limit=limit, offset=offset)
        total = library.rows("pictures_count", keyword=keyword)[0]["total"]
    return {"items": [{**row, "tags": json.loads(row["tags"])} for row in rows], "total": total}


def thumbnail(tenant: str, picture_id: int) -> Path | None:
    with Library(library_folder(tenant), create=False) as library:
        rows = library.rows("picture_get", id=picture_id)
        return library.thumbnail(rows[0]["sha256"]) if rows else None


def original(tenant: str, picture_id: int) -> Path | None:
    """Return the file of a photo; None if it is not, or no longer, a file in the folder of its provider."""
    with Library(library_folder(tenant), create=False) as library:
        rows = library.rows("picture_get", id=picture_id)
    if not rows:
        return None
    folder = Path(rows[0]["folder"]).resolve()
    file = (folder / rows[0]["path"].lstrip("/")).resolve()
    return file if file.is_relative_to(folder) and file.is_file() else None


def album_folder(tenant: str, album: str) -> tuple[str, Path]:
    """Return the id of the first provider, and the folder of an album in it."""
    with Library(library_folder(tenant), create=False) as library:
        providers = library.rows("provider_list")
    if not providers:
        raise PermanentError("the library has no folder for photos; connect one first: photos connect")
    return providers[0]["id"], Path(providers[0]["folder"]) / album
