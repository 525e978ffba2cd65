"""Artifacts for a worker with a database connection, which accesses the store directly."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any
from uuid import UUID

from posthouse.blobs import checked_artifact_name, new_place, store_copy, store_for
from posthouse.errors import InvalidArtifact
from posthouse.settings import Settings
from posthouse.storage.artifacts import artifact_for_job, keep_artifact
from posthouse.storage.connect import Line


class DirectShelf:
    def __init__(self, url: str, settings: Settings) -> None:
        self._line = Line(url, "artifacts")
        self._store = store_for(settings)
        self._settings = settings

    async def close(self) -> None:
        await self._line.close()

    async def put(self, job_id: UUID, token: UUID, name: str, path: Path) -> dict[str, Any]:
        checked_artifact_name(name)
        place = new_place(job_id)
        digest = await store_copy(self._settings, self._store, place, path)
        try:
            await keep_artifact(
                self._line, job_id, token, name=name, place=place, size=digest.size, sha256=digest.sha256,
                content_type="application/octet-stream",
            )  # fmt: skip
        except BaseException:
            await self._store.delete(place)
            raise
        return {"name": name, "size": digest.size, "sha256": digest.sha256.hex()}

    async def get(self, job_id: UUID, token: UUID, name: str, path: Path, of: UUID | None) -> dict[str, Any]:
        found = await artifact_for_job(self._line, job_id, token, checked_artifact_name(name), of)
        sha256 = hashlib.sha256()
        part = path.with_name(path.name + ".part")
        with await asyncio.to_thread(part.open, "wb") as file:
            async for piece in self._store.read(found["place"], 0, found["size"]):
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
