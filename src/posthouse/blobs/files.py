"""Artifact storage in a folder."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from posthouse.blobs.private import FILE, private_folder
from posthouse.errors import ArtifactNotFound

PIECE = 1 << 20


class FileStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, place: str, file: Path) -> None:
        await asyncio.to_thread(self._put, place, file)

    def _put(self, place: str, file: Path) -> None:
        """Move the file to its path atomically, so that no partial file is visible, even after a crash."""
        target = self._folder / place
        private_folder(self._folder)
        private_folder(target.parent)
        near = target.with_suffix(".part")
        try:
            file.replace(near)
        except OSError:  # on another file system
            shutil.copyfile(file, near)
        near.chmod(FILE)
        with near.open("rb") as written:
            os.fsync(written.fileno())
        near.replace(target)

    async def read(self, place: str, start: int, size: int) -> AsyncIterator[bytes]:
        try:
            # Not in a thread: a request that is canceled meanwhile would leave the file open.
            file = (self._folder / place).open("rb")
        except FileNotFoundError:
            raise ArtifactNotFound("the content of the artifact no longer exists in storage") from None
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
        with suppress(OSError):  # the folder is not empty
            target.parent.rmdir()
