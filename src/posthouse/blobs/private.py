"""Folders and files that other users of the machine cannot read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
_OTHERS = 0o077


def private_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, for this user alone; close one that existed before.

    A folder of another user, or one with the sticky bit such as /tmp, keeps its mode.
    """
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=FOLDER, exist_ok=True)
    about = folder.stat()
    is_own = about.st_uid == os.geteuid() and not about.st_mode & stat.S_ISVTX
    if is_own and about.st_mode & _OTHERS:
        folder.chmod(FOLDER)


def private_opener(path: str, flags: int) -> int:
    """Open a file that this user alone can read: the ``opener`` of ``open``."""
    return os.open(path, flags, FILE)
