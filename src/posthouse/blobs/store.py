"""Artifact storage: a folder or a bucket."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

from posthouse.blobs.bucket import BucketStore
from posthouse.blobs.files import PIECE, FileStore
from posthouse.blobs.private import private_folder
from posthouse.errors import ArtifactTooLarge, ConfigurationError
from posthouse.settings import Settings


class Digest(NamedTuple):
    size: int
    sha256: bytes


class Store(Protocol):
    """A blob store. A key is written once and never changed."""

    async def put(self, place: str, file: Path) -> None:
        """Store the bytes of a file. The file may be moved."""
        ...

    def read(self, place: str, start: int, size: int) -> AsyncIterator[bytes]: ...
    async def delete(self, place: str) -> None: ...


def store_for(settings: Settings) -> Store:
    """Return the store that the settings name."""
    if not settings.storage_url:
        return FileStore(settings.data_dir / "artifacts")
    parts = urlsplit(settings.storage_url)
    match parts.scheme, parts.netloc, parts.path:
        case "file", "", path if path:
            return FileStore(Path(unquote(path)))
        case "s3", bucket, prefix if bucket:
            return BucketStore(bucket, prefix)
    raise ConfigurationError(
        f"storage_url must be file:///folder or s3://bucket/prefix, not {settings.storage_url!r}"
    )


def new_place(job_id: UUID) -> str:
    return f"{job_id}/{uuid4().hex}"


async def store_copy(settings: Settings, store: Store, place: str, path: Path) -> Digest:
    """Store a copy of a file. Raises ArtifactTooLarge."""
    copy = await asyncio.to_thread(_copied, path, settings.data_dir / "uploads")
    try:
        digest = await asyncio.to_thread(digest_of, copy)
        refuse_too_large(digest.size, settings.max_artifact_bytes)
        await store.put(place, copy)
    finally:
        await asyncio.to_thread(copy.unlink, missing_ok=True)
    return digest


def _copied(path: Path, scratch: Path) -> Path:
    private_folder(scratch)
    copy = scratch / uuid4().hex
    shutil.copyfile(path, copy)
    return copy


def refuse_too_large(size: int, limit: int) -> None:
    if size > limit:
        raise ArtifactTooLarge(
            f"the artifact has {size:,} bytes, the limit is {limit:,} (max_artifact_bytes)"
        )


def digest_of(file: Path) -> Digest:
    sha256, size = hashlib.sha256(), 0
    with file.open("rb") as content:
        while piece := content.read(PIECE):
            sha256.update(piece)
            size += len(piece)
    return Digest(size, sha256.digest())
