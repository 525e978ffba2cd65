"""Resumable uploads: pieces are stored in a local folder until the file is complete and verified."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import psycopg

from posthouse.blobs.store import (
    CHUNK_BYTES,
    BlobStore,
    Digest,
    file_digest,
    new_blob_key,
    private_folder,
    private_opener,
)
from posthouse.errors import ArtifactTooLarge, InvalidArtifact, WrongOffset
from posthouse.settings import Settings
from posthouse.storage.attempts import delete_blob_records, discarded_blobs
from posthouse.storage.connections import ConnectionRunner

KEPT_SECONDS = 86_400
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class UploadRange:
    """The range of an upload that a request sends. Without a Content-Range header it is the whole file."""

    start: int
    end: int | None
    total: int | None

    @classmethod
    def of(cls, content_range: str | None) -> UploadRange:
        if content_range is None:
            return cls(0, None, None)
        match = _RANGE.fullmatch(content_range)
        if match is None:
            raise InvalidArtifact(
                f"invalid Content-Range {content_range!r}; expected: bytes <first>-<last>/<size>"
            )
        first, last, total = (int(number) for number in match.groups())
        if not first <= last < total:
            raise InvalidArtifact(f"invalid Content-Range {content_range!r}: expected first <= last < size")
        return cls(first, last + 1, total)


class Uploads:
    def __init__(self, store: BlobStore, settings: Settings) -> None:
        self._store = store
        self._folder = settings.data_dir / "uploads"
        self.limit = settings.max_artifact_bytes
        self._locks: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    def _file(self, job_id: UUID, name: str, sha256: str) -> Path:
        return self._folder / hashlib.sha256(f"{job_id}/{sha256}/{name}".encode()).hexdigest()

    async def offset(self, job_id: UUID, name: str, sha256: str | None) -> int:
        """Return the number of bytes received."""
        return await asyncio.to_thread(_size, self._file(job_id, name, checked_sha256(sha256)))

    async def take(
        self, job_id: UUID, name: str, sha256: str | None, piece: UploadRange, stream: AsyncIterator[bytes]
    ) -> tuple[int, tuple[str, Digest] | None]:
        """Store a piece and return the number of bytes received.

        Once the file is complete, the result includes its storage key and its digest.
        """
        known = checked_sha256(sha256)
        if (piece.total or 0) > self.limit:
            raise ArtifactTooLarge(
                f"the artifact has {piece.total:,} bytes, more than the limit of {self.limit:,}; "
                "the setting is max_artifact_bytes"
            )
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

    async def _append(self, file: Path, piece: UploadRange, stream: AsyncIterator[bytes]) -> int:
        await asyncio.to_thread(private_folder, self._folder)
        if piece.total is None:  # a whole file replaces earlier pieces
            await asyncio.to_thread(file.unlink, missing_ok=True)
        arrived = await asyncio.to_thread(_size, file)
        if piece.start != arrived:
            raise WrongOffset(
                f"wrong upload offset {piece.start}: {arrived} bytes were received; resume from there"
            )
        end = self.limit if piece.end is None else piece.end
        opened = await asyncio.to_thread(open, file, "ab", opener=private_opener)
        with opened as sink:
            return await self._pour(stream, sink, arrived, end)

    async def _pour(self, stream: AsyncIterator[bytes], sink: BinaryIO, arrived: int, end: int) -> int:
        """Append the stream.

        Bytes received before a lost connection are kept, so that uploads can resume.
        """
        held = bytearray()
        try:
            async for data in stream:
                arrived += len(data)
                if arrived > end:
                    raise ArtifactTooLarge(f"the request body is larger than expected: {end:,} bytes at most")
                held += data
                if len(held) >= CHUNK_BYTES:
                    await asyncio.to_thread(sink.write, held)
                    held = bytearray()
        finally:
            await asyncio.to_thread(sink.write, held)
        return arrived

    async def _finish(self, job_id: UUID, file: Path, known: str) -> tuple[str, Digest]:
        digest = await asyncio.to_thread(file_digest, file)
        if digest.sha256.hex() != known:
            await asyncio.to_thread(file.unlink, missing_ok=True)
            raise InvalidArtifact(
                f"checksum mismatch: expected sha256 {known}, got {digest.sha256.hex()}; restart the upload"
            )
        key = new_blob_key(job_id)
        await self._store.put(key, file)
        await asyncio.to_thread(file.unlink, missing_ok=True)
        return key, digest

    def delete_stale(self) -> None:
        """Delete uploads that were abandoned for more than a day."""
        for file in self._folder.glob("*") if self._folder.exists() else ():
            with suppress(OSError):
                if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                    file.unlink()


def checked_sha256(text: str | None) -> str:
    if text is None or not _SHA256.fullmatch(text):
        raise InvalidArtifact(
            "missing or invalid X-Content-SHA256 header: send the SHA-256 of the whole artifact in "
            "lower-case hex"
        )
    return text


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


_log = logging.getLogger("posthouse.server")

ROUND_SECONDS = 60.0
BATCH = 200


class Sweeper:
    name = "sweeper"

    def __init__(self, connections: ConnectionRunner, store: BlobStore, uploads: Uploads) -> None:
        self._connections = connections
        self._store = store
        self._uploads = uploads

    async def run_once(self) -> dict[str, int]:
        await asyncio.to_thread(self._uploads.delete_stale)
        deleted = 0
        while blob_keys := await discarded_blobs(self._connections, BATCH):
            for blob_key in blob_keys:
                await self._store.delete(blob_key)
            await delete_blob_records(self._connections, blob_keys)
            deleted += len(blob_keys)
        return {"deleted": deleted}

    def pause(self) -> float:
        return ROUND_SECONDS

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except (psycopg.Error, OSError) as error:
                _log.warning("artifact clean-up failed, retrying in %.0f s: %s", ROUND_SECONDS, error)
            await asyncio.sleep(self.pause())
