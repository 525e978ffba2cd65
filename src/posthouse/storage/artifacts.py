"""Records of artifacts in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.errors import ArtifactNotFound, LeaseLost
from posthouse.storage.connect import Running
from posthouse.storage.queries import call, fetch_rows, query


async def keep_artifact(line: Running, job_id: UUID, token: UUID, **fields: Any) -> None:
    """Record an artifact: name, place, size, sha256, type. Raises LeaseLost."""

    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> Any:
        return await call(connection, "keep_artifact", id=job_id, token=token, **fields)

    if not await line.run(work):
        raise LeaseLost(f"lease lost: job {job_id} was reassigned to another worker")


async def artifact_for_job(
    line: Running, job_id: UUID, token: UUID, name: str, of: UUID | None
) -> dict[str, Any]:
    """Return an artifact of a running job, or of another job of its tenant."""

    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[dict[str, Any]]:
        return await fetch_rows(connection, "artifact_for_job", id=job_id, token=token, name=name, of=of)

    found = await line.run(work)
    if not found:
        raise LeaseLost(f"lease lost: job {job_id} was reassigned to another worker")
    if found[0]["name"] is None:
        raise ArtifactNotFound(f"job {of or job_id} has no artifact {name!r}")
    return found[0]


async def discarded_blobs(line: Running, limit: int) -> list[str]:
    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[str]:
        return [row["place"] for row in await fetch_rows(connection, "blobs_discarded", limit=limit)]

    return await line.run(work)


async def forget_blobs(line: Running, places: Sequence[str]) -> None:
    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
        await connection.execute(query("blobs_gone"), {"places": list(places)})

    await line.run(work)
