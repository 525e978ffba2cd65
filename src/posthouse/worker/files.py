"""Artifacts of handlers: files, bytes and folders."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from posthouse.blobs import checked_artifact_name, pack
from posthouse.blobs import extract as extract_archive

if TYPE_CHECKING:
    from posthouse.worker.job import Desk, Job


async def upload(job: Job, desk: Desk, what: str | Path | bytes, name: str | None) -> dict[str, Any]:
    if isinstance(what, bytes):
        return await _through_a_file(job, desk, name or "", lambda file: file.write_bytes(what))
    path = Path(what).absolute()  # noqa: ASYNC240 - resolves the current directory only
    if not await asyncio.to_thread(path.is_dir):
        return await desk.upload(job, checked_artifact_name(name or path.name), str(path))
    return await _through_a_file(job, desk, name or f"{path.name}.tar.gz", lambda file: pack(path, file))


async def _through_a_file(job: Job, desk: Desk, name: str, write: Any) -> dict[str, Any]:
    checked_artifact_name(name)
    with tempfile.TemporaryDirectory(prefix="posthouse-") as folder:
        file = Path(folder) / "upload"
        await asyncio.to_thread(write, file)
        return await desk.upload(job, name, str(file))


async def download(
    job: Job, desk: Desk, name: str, path: str | Path, of: UUID | None, *, extract: bool
) -> dict[str, Any]:
    target = Path(path).absolute()  # noqa: ASYNC240 - resolves the current directory only
    other = None if of is None else str(of)
    if not extract:
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        return await desk.download(job, name, str(target), other)
    with tempfile.TemporaryDirectory(prefix="posthouse-") as folder:
        archive = Path(folder) / "archive"
        found = await desk.download(job, name, str(archive), other)
        await asyncio.to_thread(extract_archive, archive, target)
        return found
