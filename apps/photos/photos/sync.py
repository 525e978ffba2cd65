"""Brings the library up to date with a folder, picture by picture: what is done stays done."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from photos.errors import Hopeless
from photos.features import Picture, look
from photos.library import Library
from photos.progress import Progress
from photos.provider import Provider
from photos.tagging import tags_of


def sync(library: Library, provider: Provider, prefix: str, progress: Progress) -> dict[str, int]:
    """What was added, changed, removed, and could not be read."""
    if not prefix.startswith("/") or ".." in prefix.split("/"):
        raise Hopeless(f"a path prefix begins with / and stays in the folder: {prefix!r} does not")
    known = {row["path"]: row for row in library.rows("known_files", provider_id=provider.id, prefix=prefix)}
    files = provider.files(prefix)
    counts = Counter({"added": 0, "changed": 0, "removed": 0, "unreadable": 0})
    for number, (path, file) in enumerate(files.items(), 1):
        counts.update(_take(library, provider, path, file, known.get(path)))
        progress.tell("sync", number, len(files))
    gone = [{"id": row["id"]} for path, row in known.items() if path not in files]
    library.change(("forget_picture", gone))
    counts["removed"] = len(gone)
    return {**counts, "pictures": len(files)}


def _take(
    library: Library, provider: Provider, path: str, file: Path, known: Mapping[str, Any] | None
) -> list[str]:
    """Takes over one file, and says what happened."""
    try:
        state = file.stat()
        seen = {"size": state.st_size, "changed_ns": state.st_mtime_ns}
        if known is not None and seen == {name: known[name] for name in seen}:
            return []
        content = file.read_bytes()
    except FileNotFoundError:  # it went while we looked; the next sync knows more
        return []
    digest = hashlib.sha256(content).hexdigest()
    if known is not None and known["sha256"] == digest:
        library.change(("touch_picture", [{"id": known["id"], **seen}]))
        return []
    picture = look(content)
    if picture.fault:
        sys.stderr.write(f"photos: {path} cannot be read: {picture.fault}\n")
    _keep(library, {"provider_id": provider.id, "path": path}, picture, {**seen, "sha256": digest})
    return ["added" if known is None else "changed", *(["unreadable"] if picture.fault else [])]


def _keep(library: Library, place: dict[str, str], picture: Picture, file: dict[str, Any]) -> None:
    tags = [{**place, "keyword": keyword, "confidence": share} for keyword, share in tags_of(picture).items()]
    library.change(
        ("keep_picture", [{**place, **file, **picture.row()}]),
        ("drop_seen_tags", [place]),
        ("keep_seen_tag", tags),
    )
