"""Detects photos that were added to, changed in or deleted from the folders of a tenant."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from photos.config import library_root
from photos.library import DATABASE, Library
from photos.provider import Provider

SETTLE_SECONDS = 1.0
"""Minimum age of a file: newer ones may still be being copied."""


@dataclass(frozen=True)
class FolderChange:
    """A folder of a provider that differs from the library."""

    provider_id: str
    folder_path: str
    """The deepest folder that contains all differences."""
    files: int


def find_libraries() -> dict[str, Path]:
    """Return the folders of all libraries by tenant."""
    root = library_root()
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{DATABASE}"))}


def find_changes(folder: Path, now: float | None = None) -> list[FolderChange]:
    """Compare the folders of all providers of a library with its photos."""
    now_ns = int(1e9 * (time.time() if now is None else now))
    with Library(folder, create=False) as library:
        return list(_iter_changes(library, now_ns))


def _iter_changes(library: Library, now_ns: int) -> Iterator[FolderChange]:
    for row in library.rows("provider_list"):
        if not Path(row["folder"]).is_dir():  # a disconnected drive; the nightly sync reports it
            continue
        provider = Provider(row["id"], Path(row["folder"]))
        if paths := _changed_paths(library, provider, now_ns):
            yield FolderChange(provider.id, _common_folder(paths), len(paths))


def _changed_paths(library: Library, provider: Provider, now_ns: int) -> list[str]:
    stored = {
        row["path"]: (row["size"], row["changed_ns"])
        for row in library.rows("files_below", provider_id=provider.id, prefix="/")
    }
    files = {path: _state(file) for path, file in provider.files("/").items()}
    settled_ns = now_ns - int(1e9 * SETTLE_SECONDS)
    differing = [path for path, state in files.items() if any(state) and state != stored.get(path)]
    settled = [path for path in differing if not settled_ns < files[path][1] <= now_ns]
    return settled + sorted(stored.keys() - files.keys())


def _state(file: Path) -> tuple[int, int]:
    """Return size and time of the last change; zeros if the file was deleted meanwhile."""
    try:
        stat = file.stat()
    except FileNotFoundError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def _common_folder(paths: list[str]) -> str:
    """Return the folder as the prefix of a sync."""
    common = PurePosixPath(paths[0]).parent
    while not all(PurePosixPath(path).is_relative_to(common) for path in paths):
        common = common.parent
    return str(common)
