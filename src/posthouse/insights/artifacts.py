"""Artifacts: files stored by jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.errors import ArtifactNotFound
from posthouse.insights.jobs import get_job
from posthouse.storage.queries import Db, fetch_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactInfo:
    """An artifact. ``attempt`` is the attempt that stored it."""

    name: str
    size: int
    content_type: str
    sha256: str
    created_at: datetime
    generation: int
    attempt: int


async def artifacts_of(connection: Db, job_id: UUID, *, tenant: str | None = None) -> list[ArtifactInfo]:
    """Return the artifacts of a job, by name."""
    await get_job(connection, job_id, tenant=tenant)
    rows = await fetch_rows(connection, "artifacts_list", id=job_id, tenant=tenant, name=None)
    return [ArtifactInfo(**{name: value for name, value in row.items() if name != "place"}) for row in rows]


async def artifact_place(
    connection: Db, job_id: UUID, name: str, *, tenant: str | None = None
) -> dict[str, Any]:
    """Return an artifact and the key of its bytes."""
    found = await fetch_rows(connection, "artifacts_list", id=job_id, tenant=tenant, name=name)
    if not found:
        raise ArtifactNotFound(f"job {job_id} has no artifact {name!r}")
    return found[0]
