"""Locks on files, which the kernel releases when their holder dies."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posthouse.errors import DatabaseUnavailable
from posthouse.storage.embedded.waiting import attempts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FileLock:
    """One open file that can hold one lock."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def share(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def take_alone(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def try_alone(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        # Closing would not be enough: a forked child may still have the same open file.
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        os.close(self.fd)

    def hand_over(self) -> None:
        """Close our end and leave the lock to the process that inherited the open file."""
        os.close(self.fd)


def is_held(path: Path) -> bool:
    lock = FileLock(path)
    try:
        return not lock.try_alone()
    finally:
        lock.hand_over()


@contextmanager
def held_alone(path: Path, timeout: float) -> Iterator[None]:
    lock = FileLock(path)
    try:
        _wait_alone(lock, path, timeout)
        yield
    finally:
        lock.release()


def _wait_alone(lock: FileLock, path: Path, timeout: float) -> None:
    for _ in attempts(timeout):
        if lock.try_alone():
            return
    raise DatabaseUnavailable(
        f"Another process has been starting or stopping the embedded Postgres for {timeout:g} s "
        f"(it holds {path}). Look for a process that hangs, and end it."
    )
