"""Files of jobs, for a worker with a database: it has the store too."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from posthouse.blobs import checked_artifact_name, digest_of, store_for
from posthouse.blobs.store import new_place
from posthouse.errors import ArtifactTooLarge, InvalidArtifact
from posthouse.settings import Settings
from posthouse.storage.artifacts import artifact_for_job, keep_artifact
from posthouse.storage.connect import Line


class DirectShelf:
    def __init__(self, url: str, settings: Settings) -> None:
        self._line = Line(url, "artifacts")
        self._store = store_for(settings)
        self._limit = settings.max_artifact_bytes
        self._scratch = settings.data_dir / "uploads"

    async def close(self) -> None:
        await self._line.close()

    async def put(self, job_id: UUID, token: UUID, name: str, path: Path) -> dict[str, Any]:
        checked_artifact_name(name)
        copy = await asyncio.to_thread(self._copied, path)
        try:
            digest = await asyncio.to_thread(digest_of, copy)
            refuse_too_large(digest.size, self._limit)
            place = new_place(job_id)
            await self._store.put(place, copy)
        finally:
            await asyncio.to_thread(copy.unlink, missing_ok=True)
        try:
            await keep_artifact(
                self._line, job_id, token, name=name, place=place, size=digest.size, sha256=digest.sha256,
                content_type="application/octet-stream",
            )  # fmt: skip
        except BaseException:
            await self._store.delete(place)
            raise
        return {"name": name, "size": digest.size, "sha256": digest.sha256.hex()}

    def _copied(self, path: Path) -> Path:
        """The handler's own file stays as it is."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        copy = self._scratch / uuid4().hex
        shutil.copyfile(path, copy)
        return copy

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
    """It appears under its name when it is whole."""
    if got != wanted:
        part.unlink(missing_ok=True)
        raise InvalidArtifact(f"what was read has sha256 {got}, not {wanted}")
    part.replace(path)


def refuse_too_large(size: int, limit: int) -> None:
    if size > limit:
        raise ArtifactTooLarge(
            f"it has {size:,} bytes, an artifact at most {limit:,}: see max_artifact_bytes"
        )
