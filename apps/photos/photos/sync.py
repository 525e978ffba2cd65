"""Sync of the library with a folder, one transaction per photo, so that an interrupted sync can resume."""

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
    """Sync and return the number of photos added, changed, removed and unreadable."""
    if not prefix.startswith("/") or ".." in prefix.split("/"):
        raise Hopeless(f"invalid path prefix {prefix!r}: it must start with / and must not contain ..")
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
    """Sync one file and return what changed."""
    try:
        state = file.stat()
        seen = {"size": state.st_size, "changed_ns": state.st_mtime_ns}
        if known is not None and seen == {name: known[name] for name in seen}:
            return []
        content = file.read_bytes()
    except FileNotFoundError:  # deleted during the sync; the next sync handles it
        return []
    digest = hashlib.sha256(content).hexdigest()
    if known is not None and known["sha256"] == digest:
        library.change(("touch_picture", [{"id": known["id"], **seen}]))
        return []
    picture = look(content)
    if picture.fault:
        sys.stderr.write(f"photos: warning: cannot read {path}: {picture.fault}\n")
    _keep(library, {"provider_id": provider.id, "path": path}, picture, {**seen, "sha256": digest})
    return ["added" if known is None else "changed", *(["unreadable"] if picture.fault else [])]


def _keep(library: Library, place: dict[str, str], picture: Picture, file: dict[str, Any]) -> None:
    tags = [{**place, "keyword": keyword, "confidence": share} for keyword, share in tags_of(picture).items()]
    library.change(
        ("keep_picture", [{**place, **file, **picture.row()}]),
        ("drop_seen_tags", [place]),
        ("keep_seen_tag", tags),
    )
