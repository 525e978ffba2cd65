"""Where bytes are kept: in a folder, or in a bucket."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

from posthouse.blobs.bucket import BucketStore
from posthouse.blobs.files import PIECE, FileStore
from posthouse.errors import ConfigurationError
from posthouse.settings import Settings


class Digest(NamedTuple):
    size: int
    sha256: bytes


class Store(Protocol):
    """A place is written once and never changed."""

    async def put(self, place: str, file: Path) -> None:
        """Takes over the bytes of a file; the file may be gone afterwards."""
        ...

    def read(self, place: str, start: int, size: int) -> AsyncIterator[bytes]: ...
    async def delete(self, place: str) -> None: ...


def store_for(settings: Settings) -> Store:
    """The store that the settings name."""
    if not settings.storage_url:
        return FileStore(settings.data_dir / "artifacts")
    parts = urlsplit(settings.storage_url)
    match parts.scheme, parts.netloc, parts.path:
        case "file", "", path if path:
            return FileStore(Path(unquote(path)))
        case "s3", bucket, prefix if bucket:
            return BucketStore(bucket, prefix)
    raise ConfigurationError(
        f"storage_url is file:///folder or s3://bucket/prefix, not {settings.storage_url!r}"
    )


def new_place(job_id: UUID) -> str:
    return f"{job_id}/{uuid4().hex}"


def digest_of(file: Path) -> Digest:
    sha256, size = hashlib.sha256(), 0
    with file.open("rb") as content:
        while piece := content.read(PIECE):
            sha256.update(piece)
            size += len(piece)
    return Digest(size, sha256.digest())
