"""Artifact storage, storage of applications, and archives of folders."""

from posthouse.blobs.archive import ArchiveLimits, extract, pack
from posthouse.blobs.storage import NotStored, Storage, StoredFile, open_storage
from posthouse.blobs.store import (
    AppStorage,
    FileStore,
    Store,
    app_folder,
    app_storage,
    checked_artifact_name,
    digest_of,
    new_place,
    refuse_too_large,
    store_copy,
    store_for,
)

__all__ = [
    "AppStorage",
    "ArchiveLimits",
    "FileStore",
    "NotStored",
    "Storage",
    "Store",
    "StoredFile",
    "app_folder",
    "app_storage",
    "checked_artifact_name",
    "digest_of",
    "extract",
    "new_place",
    "open_storage",
    "pack",
    "refuse_too_large",
    "store_copy",
    "store_for",
]
