"""Parts and finished steps of a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from posthouse.insights.masking import mask_for, masked
from posthouse.storage.queries import Db, fetch

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
