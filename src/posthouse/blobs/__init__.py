"""Artifact storage, storage of applications, and archives of folders."""

from posthouse.blobs.archive import ArchiveLimits, extract, pack
from posthouse.blobs.storage import NotStored, Storage, StoredFile, open_storage
from posthouse.blobs.store import (
    AppStorage,
    BlobStore,
    FileBlobStore,
    app_folder,
    app_storage,
    file_digest,
    new_blob_key,
    open_store,
    reject_too_large,
    store_copy,
    validate_artifact_name,
)

__all__ = [
    "AppStorage",
    "ArchiveLimits",
    "BlobStore",
    "FileBlobStore",
    "NotStored",
    "Storage",
    "StoredFile",
    "app_folder",
    "app_storage",
    "extract",
    "file_digest",
    "new_blob_key",
    "open_storage",
    "open_store",
    "pack",
    "reject_too_large",
    "store_copy",
    "validate_artifact_name",
]
