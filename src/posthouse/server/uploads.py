"""Uploads in pieces: what has arrived waits in a folder of this server until all is there and adds up."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from posthouse.blobs.files import PIECE
from posthouse.blobs.store import Digest, Store, digest_of, new_place
from posthouse.errors import ArtifactTooLarge, InvalidArtifact, WrongOffset
from posthouse.settings import Settings

KEPT_SECONDS = 86_400
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Piece:
    """What a request brings: from where to where, and of how much. Without a range it is all of it."""

    start: int
    end: int | None
    total: int | None

    @classmethod
    def of(cls, content_range: str | None) -> Piece:
        if content_range is None:
            return cls(0, None, None)
        match = _RANGE.fullmatch(content_range)
        if match is None:
            raise InvalidArtifact("Content-Range is: bytes <first>-<last>/<size>")
        first, last, total = (int(number) for number in match.groups())
        if not first <= last < total:
            raise InvalidArtifact(f"Content-Range {content_range!r} makes no sense")
        return cls(first, last + 1, total)


class Uploads:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._folder = settings.data_dir / "uploads"
        self.limit = settings.max_artifact_bytes
        self._locks: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    def _file(self, job_id: UUID, name: str, sha256: str) -> Path:
        return self._folder / hashlib.sha256(f"{job_id}/{sha256}/{name}".encode()).hexdigest()

    async def offset(self, job_id: UUID, name: str, sha256: str | None) -> int:
        """How much of it has arrived."""
        return await asyncio.to_thread(_size, self._file(job_id, name, checked_sha256(sha256)))

    async def take(
        self, job_id: UUID, name: str, sha256: str | None, piece: Piece, stream: AsyncIterator[bytes]
    ) -> tuple[int, tuple[str, Digest] | None]:
        """Takes a piece. Returns how much has arrived; when that is all, also its place and its digest."""
        known = checked_sha256(sha256)
        if (piece.total or 0) > self.limit:
            raise ArtifactTooLarge(f"an artifact has at most {self.limit:,} bytes")
        file = self._file(job_id, name, known)
        lock = self._locks[file]
        try:
            async with lock:
                arrived = await self._append(file, piece, stream)
                if piece.total is not None and arrived < piece.total:
                    return arrived, None
                return arrived, await self._finish(job_id, file, known)
        finally:
            if not lock.locked():
                self._locks.pop(file, None)

    async def _append(self, file: Path, piece: Piece, stream: AsyncIterator[bytes]) -> int:
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        if piece.total is None:  # all of it, again or not
            await asyncio.to_thread(file.unlink, missing_ok=True)
        arrived = await asyncio.to_thread(_size, file)
        if piece.start != arrived:
            raise WrongOffset(f"{arrived} bytes have arrived: go on from there")
        end = self.limit if piece.end is None else piece.end
        opened = await asyncio.to_thread(file.open, "ab")
        with opened as sink:
            return await self._pour(stream, sink, arrived, end)

    async def _pour(self, stream: AsyncIterator[bytes], sink: BinaryIO, arrived: int, end: int) -> int:
        """What comes before the connection breaks stays, so that the next request goes on behind it."""
        held = bytearray()
        try:
            async for data in stream:
                arrived += len(data)
                if arrived > end:
                    raise ArtifactTooLarge(f"more than {end:,} bytes came")
                held += data
                if len(held) >= PIECE:
                    await asyncio.to_thread(sink.write, held)
                    held = bytearray()
        finally:
            await asyncio.to_thread(sink.write, held)
        return arrived

    async def _finish(self, job_id: UUID, file: Path, known: str) -> tuple[str, Digest]:
        digest = await asyncio.to_thread(digest_of, file)
        if digest.sha256.hex() != known:
            await asyncio.to_thread(file.unlink, missing_ok=True)
            raise InvalidArtifact(f"what arrived has sha256 {digest.sha256.hex()}, not {known}: begin again")
        place = new_place(job_id)
        await self._store.put(place, file)
        await asyncio.to_thread(file.unlink, missing_ok=True)
        return place, digest

    def tidy(self) -> None:
        """Throws away what nobody went on with."""
        for file in self._folder.glob("*") if self._folder.exists() else ():
            with suppress(OSError):
                if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                    file.unlink()


def checked_sha256(text: str | None) -> str:
    if text is None or not _SHA256.fullmatch(text):
        raise InvalidArtifact("X-Content-SHA256 is the SHA-256 of the whole artifact, in hex")
    return text


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
