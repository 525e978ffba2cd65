"""Temporary folders of jobs. Those of killed processes are removed by the next job on the machine."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "posthouse-vision-"
GRACE_SECONDS = 60
"""Age from which a folder without a holder is abandoned: a new one is not yet locked."""
_LOCK = ".lock"


@contextmanager
def workspace() -> Iterator[Path]:
    """Yield an empty folder that is removed at the end of the block."""
    remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name)
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(
                lock, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # released when the process ends, however it ends
            work = folder / "work"
            work.mkdir()
            yield work


def remove_abandoned() -> int:
    """Remove the folders whose process has ended, and return their number."""
    folders = Path(tempfile.gettempdir()).glob(f"{PREFIX}*")
    return sum(_remove_if_abandoned(folder) for folder in folders)


def _remove_if_abandoned(folder: Path) -> bool:
    try:
        if time.time() - folder.stat().st_mtime < GRACE_SECONDS:
            return False
        with (folder / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # in use, of another user, or without a lock yet
        return False
    return True
