"""What a running job stores: steps, progress, log lines, artifacts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from posthouse.errors import ArtifactNotFound, LeaseLost
from posthouse.storage.connections import ConnectionRunner, ReconnectingConnection
from posthouse.storage.queries import call, fetch_rows, query


class LogEntry(NamedTuple):
    job_id: str
    token: str
    age: float  # seconds since the line was emitted
    stream: str
    level: str | None
    text: str


class PostgresAttemptStore:
    def __init__(self, url: str, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._connections: ConnectionRunner = ReconnectingConnection(url, "notes")

    @classmethod
    def over(cls, connections: ConnectionRunner, lease_seconds: float) -> Self:
        """Return a store for a remote worker, on connections that the server shares."""
        store = cls("", lease_seconds)
        store._connections = connections
        return store

    async def close(self) -> None:
        await self._connections.close()

    async def report(self, reports: Sequence[Mapping[str, Any]]) -> dict[UUID, str]:
        """Write progress and parts of many jobs. Returns those not written: ``lost`` or ``busy``."""
        return dict(await self._rows("report", json.dumps(list(reports)), self.lease_seconds))

    async def parts(self, job_id: UUID, _token: UUID) -> list[dict[str, Any]]:
        async def work(connection: AsyncConnection[Any]) -> list[dict[str, Any]]:
            async with connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(query("job_parts"), {"id": job_id, "tenant": None})
                return await cursor.fetchall()

        return await self._connections.run(work)

    async def steps_done(self, job_id: UUID, _token: UUID) -> list[str]:
        return [row[0] for row in await self._rows("steps_done", job_id)]

    async def step_result(self, job_id: UUID, _token: UUID, name: str) -> str | None:
        rows = await self._rows("step_result", job_id, name)
        return rows[0][0] if rows else None

    async def save_step(self, parameters: Sequence[Any]) -> str:
        """Store a step. Returns ``kept``, ``again`` or ``lost``.

        The parameters are those of the statement step_keep.
        """
        return str((await self._rows("step_keep", *parameters))[0][0])

    async def write_log(self, lines: Sequence[LogEntry]) -> None:
        await self._rows("log_write", *(list(column) for column in zip(*lines, strict=True)))

    async def _rows(self, name: str, *parameters: Any) -> list[Any]:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[Any]:
            cursor = await connection.execute(query(name), parameters)
            return await cursor.fetchall()

        return await self._connections.run(work)


async def save_artifact(connections: ConnectionRunner, job_id: UUID, token: UUID, **fields: Any) -> None:
    """Record an artifact: name, blob_key, size, sha256, type. Raises LeaseLost."""

    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> Any:
        return await call(connection, "save_artifact", id=job_id, token=token, **fields)

    if not await connections.run(work):
        raise LeaseLost(f"lease lost: job {job_id} was reassigned to another worker")


async def artifact_for_job(
    connections: ConnectionRunner, job_id: UUID, token: UUID, name: str, of: UUID | None
) -> dict[str, Any]:
    """Return an artifact of a running job, or of the job ``of`` of the same tenant."""

    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[dict[str, Any]]:
        return await fetch_rows(connection, "artifact_for_job", id=job_id, token=token, name=name, of=of)

    found = await connections.run(work)
    if not found:
        raise LeaseLost(f"lease lost: job {job_id} was reassigned to another worker")
    if found[0]["name"] is None:
        raise ArtifactNotFound(f"job {of or job_id} has no artifact {name!r}")
    return found[0]


async def discarded_blobs(connections: ConnectionRunner, limit: int) -> list[str]:
    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> list[str]:
        return [row["blob_key"] for row in await fetch_rows(connection, "blobs_to_delete", limit=limit)]

    return await connections.run(work)


async def delete_blob_records(connections: ConnectionRunner, blob_keys: Sequence[str]) -> None:
    async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
        await connection.execute(query("blobs_deleted"), {"blob_keys": list(blob_keys)})

    await connections.run(work)
