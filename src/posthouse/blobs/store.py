"""Keeps bytes in places: in a folder."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

from posthouse.errors import ArtifactNotFound, ConfigurationError
from posthouse.settings import Settings

PIECE = 1 << 20


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


class FileStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, place: str, file: Path) -> None:
        await asyncio.to_thread(self._put, place, file)

    def _put(self, place: str, file: Path) -> None:
        """Into its place in one step: nobody sees half of it, not even after a crash."""
        target = self._folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        near = target.with_suffix(".part")
        try:
            file.replace(near)
        except OSError:  # on another disk
            shutil.copyfile(file, near)
        with near.open("rb") as written:
            os.fsync(written.fileno())
        near.replace(target)

    async def read(self, place: str, start: int, size: int) -> AsyncIterator[bytes]:
        try:
            file = await asyncio.to_thread((self._folder / place).open, "rb")
        except FileNotFoundError:
            raise ArtifactNotFound("its bytes are gone") from None
        try:
            await asyncio.to_thread(file.seek, start)
            while size > 0 and (piece := await asyncio.to_thread(file.read, min(PIECE, size))):
                size -= len(piece)
                yield piece
        finally:
            file.close()

    async def delete(self, place: str) -> None:
        await asyncio.to_thread(self._delete, self._folder / place)

    def _delete(self, target: Path) -> None:
        target.unlink(missing_ok=True)
        with suppress(OSError):  # others are there
            target.parent.rmdir()


def store_for(settings: Settings) -> Store:
    """The store that the settings name."""
    if not settings.storage_url:
        return FileStore(settings.data_dir / "artifacts")
    parts = urlsplit(settings.storage_url)
    if parts.scheme != "file" or parts.netloc or not parts.path:
        raise ConfigurationError(f"storage_url is file:///folder, not {settings.storage_url!r}")
    return FileStore(Path(unquote(parts.path)))


def new_place(job_id: UUID) -> str:
    return f"{job_id}/{uuid4().hex}"


def digest_of(file: Path) -> Digest:
    sha256, size = hashlib.sha256(), 0
    with file.open("rb") as content:
        while piece := content.read(PIECE):
            sha256.update(piece)
            size += len(piece)
    return Digest(size, sha256.digest())
