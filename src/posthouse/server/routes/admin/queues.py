"""Queues and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import Path, Response
from pydantic import ConfigDict, Field

from posthouse import insights
from posthouse.errors import InvalidRequest, LimitNotFound
from posthouse.identity import Permission
from posthouse.insights import LimitInfo, QueueInfo, SlotInfo
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import JobReader, api_router
from posthouse.server.http.responses import json_response
from posthouse.server.schemas.jobs import ApiModel, ChangeResponse, Name
from posthouse.storage.actions import pause_queue, remove_limit, resume_queue, set_limit

router = api_router("/queues", "queues")
admin = api_router("/admin/queues", "queues")
limits = api_router("/admin/limits", "limits")
Reader = Annotated[Access, allow(Permission.OVERVIEW_READ)]
Writer = Annotated[Access, allow(Permission.QUEUES_WRITE)]
QueueName = Annotated[str, Path(min_length=1, max_length=512)]
LimitName = Annotated[str, Path(min_length=1, max_length=200)]


@router.get("", response_model=list[QueueInfo])
async def list_queues(access: JobReader) -> Response:
    """List queues with their job counts."""
    async with access.transaction() as db:
        found = await insights.list_queues(db, offline_after=access.offline_after)
    if access.is_platform:
        return json_response(found)
    return json_response([replace(queue, paused_by=None) for queue in found])


@admin.post("/{name:path}/pause", response_model=ChangeResponse)
async def pause(name: QueueName, access: Writer) -> Response:
    """Pause a queue.

    No more jobs of the queue start; running jobs continue.
    """
    _reject_control_characters(name)
    async with access.transaction() as db:
        return json_response(ChangeResponse(changed=await pause_queue(db, name, actor=access.actor)))


@admin.post("/{name:path}/resume", response_model=ChangeResponse)
async def resume(name: QueueName, access: Writer) -> Response:
    """Resume a queue."""
    _reject_control_characters(name)
    async with access.transaction() as db:
        return json_response(ChangeResponse(changed=await resume_queue(db, name, actor=access.actor)))


def _reject_control_characters(name: str) -> None:
    if any(ord(char) < ord(" ") for char in name):
        raise InvalidRequest(f"invalid queue name {name!r}: control characters are not allowed")


class LimitFields(ApiModel):
    """The fields to change; null removes a value. Omitted fields stay unchanged."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"kinds": ["welcome"], "max_running": 5, "rate": 1.5, "per": "tenant"}]
        },
    )

    kinds: list[Name] | None = Field(None, max_length=1000, fail_fast=True)
    queues: list[Name] | None = Field(None, max_length=1000, fail_fast=True)
    tenants: list[Name] | None = Field(None, max_length=1000, fail_fast=True)
    per: Literal["all", "tenant", "key"] = "all"
    max_running: int | None = Field(None, ge=0, lt=2**31)
    rate: float | None = Field(None, gt=0, le=1_000_000)
    burst: float | None = Field(None, ge=1, le=1_000_000)
    weights: dict[Name, Annotated[float, Field(ge=0, le=1_000_000)]] = Field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDetail:
    """A limit and its fullest slots."""

    limit: LimitInfo
    slots: list[SlotInfo]


@limits.get("", response_model=list[LimitInfo])
async def list_limits(access: Reader) -> Response:
    """List limits with their usage."""
    async with access.transaction() as db:
        return json_response(await insights.limits(db))


@limits.get("/{name}", response_model=LimitDetail)
async def show_limit(name: LimitName, access: Reader) -> Response:
    """Get a limit and its fullest slots."""
    async with access.transaction() as db:
        found = await insights.limits(db, name=name)
        if not found:
            raise LimitNotFound(f"limit {name!r} does not exist")
        return json_response(LimitDetail(limit=found[0], slots=await insights.limit_slots(db, name=name)))


@limits.put("/{name}", response_model=LimitInfo)
async def put_limit(name: LimitName, fields: LimitFields, access: Writer) -> Response:
    """Create or change a limit.

    Only the fields that are sent change. The limit takes effect immediately.
    """
    async with access.transaction() as db:
        await set_limit(db, name, fields.fields(), actor=access.actor)
        (found,) = await insights.limits(db, name=name)
    return json_response(found)


@limits.delete("/{name}", status_code=204)
async def delete_limit(name: LimitName, access: Writer) -> Response:
    """Delete a limit.

    A limit defined in code is created again when the next worker starts.
    """
    async with access.transaction() as db:
        await remove_limit(db, name, actor=access.actor)
    return Response(status_code=204)
