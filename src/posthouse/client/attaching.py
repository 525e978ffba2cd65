"""Artifacts that are attached to a job at enqueue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from posthouse.blobs import checked_artifact_name, new_place, store_copy, store_for
from posthouse.client.callers import ask_on
from posthouse.errors import JobNotFound
from posthouse.settings import Settings
from posthouse.storage.errors import translated

ANY_TYPE = "application/octet-stream"


async def attach(settings: Settings, job_id: UUID, path: Path, name: str | None, connection: Any) -> None:
    """Store the bytes, then record the artifact on the caller's connection.

    If that fails, the stored bytes are deleted again.
    """
    named = checked_artifact_name(name or path.name)
    store, place = store_for(settings), new_place(job_id)
    digest = await store_copy(settings, store, place, path)
    file = {"job_id": str(job_id), "name": named, "place": place, "size": digest.size}
    file |= {"sha256": digest.sha256.hex(), "content_type": ANY_TYPE}
    try:
        await _tell(connection, file)
    except BaseException:
        await store.delete(place)
        raise


async def _tell(connection: Any, file: dict[str, Any]) -> None:
    with translated():
        ((found,),) = await ask_on(connection, "artifact_attach", json.dumps(file))
    if not found:
        raise JobNotFound(
            f"job {file['job_id']} is not queued: artifacts can only be attached to queued jobs"
        )
