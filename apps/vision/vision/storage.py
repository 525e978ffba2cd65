"""The storage of the application."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from posthouse.blobs import NotStored, Storage, open_storage

__all__ = ["DENIED", "NotStored", "opened_original", "storage"]

DENIED: tuple[type[Exception], ...] = (PermissionDeniedError, UnauthenticatedError)


@cache
def storage() -> Storage:
    """Return the configured storage."""
    return open_storage("vision")


def opened_original(path: str) -> AbstractContextManager[Path]:
    """Open an original video as a local file."""
    return storage().opened(path, "Original video")
