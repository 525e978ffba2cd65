"""Sync of the library with a folder, one transaction per photo, so that an interrupted sync can resume."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from photos.errors import PermanentError
from photos.features import Picture, analyze_image
from photos.library import Library
from photos.models import tagging_model
from photos.progress import Progress
from photos.provider import Provider
from photos.tagging import automatic_tags
from photos.training import default_model, predicted_tags

Models = Sequence[Mapping[str, Any]]


def sync(library: Library, provider: Provider, prefix: str, progress: Progress) -> dict[str, int]:
    """Sync and return the number of photos added, changed, removed and unreadable."""
    if not prefix.startswith("/") or ".." in prefix.split("/"):
        raise PermanentError(f"invalid path prefix {prefix!r}: it must start with / and must not contain ..")
    stored = {row["path"]: row for row in library.rows("files_below", provider_id=provider.id, prefix=prefix)}
    files = provider.files(prefix)
    models = default_model(library)
    counts = Counter({"added": 0, "changed": 0, "removed": 0, "unreadable": 0})
    for number, (path, file) in enumerate(files.items(), 1):
        counts.update(_import_file(library, models, (provider.id, path, file), stored.get(path)))
        progress.report("sync", number, len(files))
    deleted = [{"id": row["id"]} for path, row in stored.items() if path not in files]
    library.change(("picture_delete", deleted))
    counts["removed"] = len(deleted)
    if counts["removed"] or counts["changed"]:
        library.sweep_thumbnails()
    return {**counts, "pictures": len(files)}


def _import_file(
    library: Library, models: Models, source: tuple[str, str, Path], stored: Mapping[str, Any] | None
) -> list[str]:
    """Sync one file and return what changed."""
    provider_id, path, file = source
    try:
        stat = file.stat()
        model = tagging_model().name
        state = {"size": stat.st_size, "changed_ns": stat.st_mtime_ns, "model": model}
        if stored is not None and state == {name: stored[name] for name in state}:
            return []
        content = file.read_bytes()
    except FileNotFoundError:  # deleted during the sync; the next sync handles it
        return []
    digest = hashlib.sha256(content).hexdigest()
    if stored is not None and (stored["sha256"], stored["model"]) == (digest, model):
        library.change(("picture_touch", [{"id": stored["id"], **state}]))
        return []
    picture = analyze_image(content)
    if picture.fault:
        sys.stderr.write(f"photos: warning: cannot read {path}: {picture.fault}\n")
    library.save_thumbnail(digest, picture.thumbnail)
    key = {"provider_id": provider_id, "path": path}
    _store(library, {**key, **state, "sha256": digest, **picture.row()}, _tags(picture, models))
    return ["added" if stored is None else "changed", *(["unreadable"] if picture.fault else [])]


def _tags(picture: Picture, models: Models) -> list[dict[str, Any]]:
    """Return the tags of both models; that of trained keywords may not exist yet."""
    trained = predicted_tags(models, picture.features) if picture.features else {}
    return [
        {"source": source, "keyword": keyword, "confidence": confidence}
        for source, tags in (("automatic", automatic_tags(picture)), ("trained", trained))
        for keyword, confidence in tags.items()
    ]


def _store(library: Library, row: dict[str, Any], tags: list[dict[str, Any]]) -> None:
    library.change(
        ("picture_upsert", [row]),
        ("tags_delete", [{**row, "source": None}]),
        ("tag_insert", [{**row, **tag} for tag in tags]),
    )
