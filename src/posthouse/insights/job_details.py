"""The details of one job: parts, steps, log lines, artifacts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from posthouse.core.states import Status
from posthouse.errors import ArtifactNotFound
from posthouse.insights.jobs import get_job, list_attempts
from posthouse.insights.masking import mask_for, masked
from posthouse.storage.notifications import LogFollower
from posthouse.storage.queries import Db, fetch, fetch_rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartInfo:
    name: str
    status: str
    percent: float
    done: int | None
    total: int | None
    weight: float
    message: str | None
    error: str | None
    result: Any
    generation: int
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """A finished step; ``attempt`` is the one that ran it."""

    name: str
    generation: int
    attempt: int
    seconds: float | None
    finished_at: datetime
    result: Any


async def parts_of(connection: Db, job_id: UUID, *, tenant: str | None = None) -> list[PartInfo]:
    """Return the parts in the order of their declaration."""
    return await _masked(connection, job_id, "job_parts", PartInfo, tenant)


async def steps_of(connection: Db, job_id: UUID, *, tenant: str | None = None) -> list[StepInfo]:
    """Return the steps, first to last."""
    return await _masked(connection, job_id, "job_steps", StepInfo, tenant)


async def _masked(connection: Db, job_id: UUID, name: str, row_type: type[T], tenant: str | None) -> list[T]:
    rows = await fetch(connection, name, row_type, id=job_id, tenant=tenant)
    if not rows:
        return rows
    return await masked(await mask_for(connection, job_id), rows)


PAGE = 1000
ACTIVE = {Status.QUEUED.value, Status.RUNNING.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A log line. ``stream`` is log, stdout or stderr; only lines of the stream log have a level."""

    sequence: int
    at: datetime
    generation: int
    attempt: int
    stream: str
    level: str | None
    text: str


class AttemptFilter(NamedTuple):
    """A filter for attempts, by number and generation. None selects all."""

    attempt: int | None = None
    generation: int | None = None


async def read_log(
    connection: Db,
    job_id: UUID,
    *,
    tenant: str | None = None,
    after: int = 0,
    which: AttemptFilter = AttemptFilter(),  # noqa: B008 - immutable
    limit: int = PAGE,
) -> list[LogLine]:
    """Return log lines, first to last, after the line with the number ``after``."""
    return await fetch(
        connection, "job_log", LogLine, id=job_id, tenant=tenant, after=after, limit=limit, **which._asdict()
    )


async def end_of_log(
    connection: Db,
    job_id: UUID,
    *,
    tenant: str | None = None,
    before: int | None = None,
    which: AttemptFilter = AttemptFilter(),  # noqa: B008 - immutable
    limit: int = PAGE,
) -> list[LogLine]:
    """Return the last lines, or the last before the line with the number ``before``, in order."""
    return await fetch(
        connection, "job_log_tail", LogLine, id=job_id, tenant=tenant, before=before, limit=limit,
        **which._asdict(),
    )  # fmt: skip


async def follow_log(
    connection: Db,
    job_id: UUID,
    *,
    tenant: str | None = None,
    after: int = 0,
    which: AttemptFilter = AttemptFilter(),  # noqa: B008 - immutable
    to_the_end: bool = True,
) -> AsyncIterator[list[LogLine]]:
    """Yield lines as they are written until the job or attempt ends.

    With ``to_the_end=False``, only existing lines are returned. The connection must be in autocommit mode and
    is in use during the iteration.
    """
    await get_job(connection, job_id, tenant=tenant)
    async with LogFollower(connection, job_id) as following:
        while True:
            # Checked before reading: lines are written before the outcome of their job.
            over = not to_the_end or await _is_over(connection, job_id, which)
            while lines := await read_log(connection, job_id, tenant=tenant, after=after, which=which):
                after = lines[-1].sequence
                yield lines
            if over:
                return
            await following.pause()


async def _is_over(connection: Db, job_id: UUID, which: AttemptFilter) -> bool:
    job = await get_job(connection, job_id)
    if job.status not in ACTIVE:
        return True
    if which.attempt is None or which.generation not in {None, job.generation}:
        return which.generation is not None and which.generation < job.generation
    records = [
        item
        for item in await list_attempts(connection, job_id)
        if item.attempt == which.attempt and item.generation == job.generation
    ]
    return bool(records) and all(item.finished_at is not None for item in records)


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


async def list_artifacts(connection: Db, job_id: UUID, *, tenant: str | None = None) -> list[ArtifactInfo]:
    """Return the artifacts of a job, by name."""
    await get_job(connection, job_id, tenant=tenant)
    rows = await fetch_rows(connection, "artifacts_list", id=job_id, tenant=tenant, name=None)
    return [
        ArtifactInfo(**{name: value for name, value in row.items() if name != "blob_key"}) for row in rows
    ]


async def get_artifact(
    connection: Db, job_id: UUID, name: str, *, tenant: str | None = None
) -> dict[str, Any]:
    """Return an artifact and the key of its bytes."""
    found = await fetch_rows(connection, "artifacts_list", id=job_id, tenant=tenant, name=name)
    if not found:
        raise ArtifactNotFound(f"job {job_id} has no artifact {name!r}")
    return found[0]
