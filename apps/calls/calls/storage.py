"""The storage of the application."""

from __future__ import annotations

from functools import cache

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from posthouse.blobs import NotStored, Storage, open_storage

__all__ = ["DENIED", "NotStored", "storage"]

DENIED: tuple[type[Exception], ...] = (PermissionDeniedError, UnauthenticatedError)


@cache
def storage() -> Storage:
    """Return the configured storage."""
    return open_storage("calls")
