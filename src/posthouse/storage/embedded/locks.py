"""File locks, and waiting for a condition."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posthouse.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FileLock:
    """An open file that can be locked."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def lock_shared(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def lock_exclusive(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def try_lock_exclusive(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        # Closing is not enough: a forked child may still have the same file open.
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        os.close(self.fd)

    def close_without_unlock(self) -> None:
        """Close the file here and leave the lock to the process that inherited it."""
        os.close(self.fd)


def is_held(path: Path) -> bool:
    lock = FileLock(path)
    try:
        return not lock.try_lock_exclusive()
    finally:
        lock.close_without_unlock()


@contextmanager
def exclusive_lock(path: Path, timeout: float) -> Iterator[None]:
    lock = FileLock(path)
    try:
        _wait_exclusive(lock, path, timeout)
        yield
    finally:
        lock.release()


def _wait_exclusive(lock: FileLock, path: Path, timeout: float) -> None:
    for _ in attempts(timeout):
        if lock.try_lock_exclusive():
            return
    raise DatabaseUnavailable(
        f"timed out after {timeout:g} s: another process is starting or stopping the embedded Postgres "
        f"(it holds the lock {path}). Find the process with `fuser {path}` and stop it if it hangs."
    )


FIRST_PAUSE = 0.02
# A server in recovery logs a line for each attempt, so that attempts become less frequent.
MAX_PAUSE = 0.5


def attempts(timeout: float) -> Iterator[None]:
    """Yield at least once, then repeatedly until the timeout."""
    end = time.monotonic() + timeout
    pause = FIRST_PAUSE
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.2, MAX_PAUSE)
        yield
