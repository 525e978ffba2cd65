"""The calls of prctl(2) that the standard library lacks. On other systems than Linux they do nothing."""

from __future__ import annotations

import ctypes
import sys

_SET_PARENT_DEATH_SIGNAL = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVILEGES = 38

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

AVAILABLE = _libc is not None


def _prctl(option: int, value: int | bytes) -> bool:
    return _libc is not None and _libc.prctl(option, value, 0, 0, 0) == 0


def name_process(name: str) -> None:
    """Set the name that ``ps`` shows, at most 15 characters."""
    _prctl(_SET_NAME, name.encode())


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, instead of init."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_dies(number: int) -> None:
    _prctl(_SET_PARENT_DEATH_SIGNAL, number)


def forbid_new_privileges() -> None:
    """Forbid new privileges: this process could not kill a program that became root."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)
