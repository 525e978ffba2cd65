"""Artifacts of handlers: files, bytes and folders."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from posthouse.blobs import extract as extract_archive
from posthouse.blobs import new_blob_key, open_store, pack, store_copy, validate_artifact_name
from posthouse.errors import InvalidArtifact
from posthouse.settings import Settings
from posthouse.storage.attempts import artifact_for_job, save_artifact
from posthouse.storage.connections import ReconnectingConnection

if TYPE_CHECKING:
    from posthouse.worker.attempt import Attempt


async def upload(attempt: Attempt, what: str | Path | bytes, name: str | None) -> dict[str, Any]:
    if isinstance(what, bytes):
        return await _through_a_file(attempt, name or "", lambda file: file.write_bytes(what))
    path = Path(what).absolute()  # noqa: ASYNC240 - resolves the current directory only
    if not await asyncio.to_thread(path.is_dir):
        return await attempt.services.upload(attempt, validate_artifact_name(name or path.name), str(path))
    return await _through_a_file(attempt, name or f"{path.name}.tar.gz", lambda file: pack(path, file))


async def _through_a_file(attempt: Attempt, name: str, write: Any) -> dict[str, Any]:
    validate_artifact_name(name)
    with tempfile.TemporaryDirectory(prefix="posthouse-") as folder:
        file = Path(folder) / "upload"
        await asyncio.to_thread(write, file)
        return await attempt.services.upload(attempt, name, str(file))


async def download(
    attempt: Attempt, name: str, path: str | Path, of: UUID | None, *, extract: bool
) -> dict[str, Any]:
    target = Path(path).absolute()  # noqa: ASYNC240 - resolves the current directory only
    other = None if of is None else str(of)
    if not extract:
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        return await attempt.services.download(attempt, name, str(target), other)
    with tempfile.TemporaryDirectory(prefix="posthouse-") as folder:
        archive = Path(folder) / "archive"
        found = await attempt.services.download(attempt, name, str(archive), other)
        await asyncio.to_thread(extract_archive, archive, target)
        return found


class PostgresArtifactStore:
    """The artifact store of a worker with a database connection."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._connection = ReconnectingConnection(url, "artifacts")
        self._store = open_store(settings)
        self._settings = settings

    async def close(self) -> None:
        await self._connection.close()

    async def put(self, job_id: UUID, token: UUID, name: str, path: Path) -> dict[str, Any]:
        validate_artifact_name(name)
        key = new_blob_key(job_id)
        digest = await store_copy(self._settings, self._store, key, path)
        try:
            await save_artifact(
                self._connection, job_id, token, name=name, blob_key=key, size=digest.size,
                sha256=digest.sha256, type="application/octet-stream",
            )  # fmt: skip
        except BaseException:
            await self._store.delete(key)
            raise
        return {"name": name, "size": digest.size, "sha256": digest.sha256.hex()}

    async def get(self, job_id: UUID, token: UUID, name: str, path: Path, of: UUID | None) -> dict[str, Any]:
        found = await artifact_for_job(self._connection, job_id, token, validate_artifact_name(name), of)
        sha256 = hashlib.sha256()
        part = path.with_name(path.name + ".part")
        with await asyncio.to_thread(part.open, "wb") as file:
            async for piece in self._store.read(found["blob_key"], 0, found["size"]):
                sha256.update(piece)
                await asyncio.to_thread(file.write, piece)
        settle_download(part, path, sha256.hexdigest(), found["sha256"])
        return {"name": name, "size": found["size"], "sha256": found["sha256"]}


def settle_download(part: Path, path: Path, got: str, wanted: str) -> None:
    """Verify the checksum, then move the complete file to its path."""
    if got != wanted:
        part.unlink(missing_ok=True)
        raise InvalidArtifact(f"checksum mismatch: expected sha256 {wanted}, got {got}")
    part.replace(path)
