"""Events of a tenant: emit, list, replay."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request, Response
from pydantic import BaseModel

from posthouse import insights
from posthouse.client.enqueue import EventOptions, encode_event
from posthouse.identity import Permission
from posthouse.insights import EventInfo, MatchInfo
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import IdempotencyKey, api_router, run_idempotent
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    decode_cursor,
    etag_response,
    json_response,
    page,
)
from posthouse.server.schemas.triggers import NewEvent, Replay
from posthouse.storage.queries import Db, query
from posthouse.triggers import replay_event

router = api_router("/events", "events", payloads=True)
Reader = Annotated[Access, allow(Permission.EVENTS_READ, tenant_scoped=True)]
Emitter = Annotated[Access, allow(Permission.EVENTS_EMIT, tenant_scoped=True)]
Replayer = Annotated[Access, allow(Permission.TRIGGERS_WRITE, tenant_scoped=True)]


class EmittedEvent(BaseModel):
    """The stored event."""

    id: UUID


@router.post("", status_code=202, response_model=EmittedEvent)
async def emit(
    request: Request, new: NewEvent, access: Emitter, idempotency_key: IdempotencyKey = None
) -> Response:
    """Emit an event.

    The keeper matches it with the triggers of the tenant.
    """
    access = access.with_default_tenant()
    options = EventOptions(
        tenant=access.tenant or "",
        subject=new.subject,
        correlation_id=new.correlation_id,
        created_by=access.actor,
    )
    limit = request.app.state.settings.max_payload_bytes
    event_id, text = encode_event(new.event_name, new.context, options, limit)

    async def work(db: Db) -> Response:
        await db.execute(query("emit"), (text,))
        return json_response(EmittedEvent(id=event_id), 202)

    return await run_idempotent(request, access, idempotency_key, work)


@router.get("", response_model=Page[EventInfo])
async def list_events(
    access: Reader,
    name: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="Event name; `*` matches any characters, for example `order.*`.",
        ),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List events, newest first."""
    before: Any = decode_cursor(cursor, datetime, UUID)
    async with access.transaction() as db:
        found = await insights.events(db, tenant=access.tenant, name=name, before=before, limit=limit)
    return json_response(page(found, limit, "at", "id"))


@router.get("/{event_id}", response_model=EventInfo)
async def show_event(request: Request, event_id: UUID, access: Reader) -> Response:
    """Get an event."""
    async with access.transaction() as db:
        return etag_response(request, await insights.get_event(db, event_id, tenant=access.tenant))


@router.get("/{event_id}/matches", response_model=list[MatchInfo])
async def list_matches(event_id: UUID, access: Reader) -> Response:
    """List the triggers that an event matched.

    Each with its outcome: fired, deduped or error.
    """
    async with access.transaction() as db:
        await insights.get_event(db, event_id, tenant=access.tenant)
        return json_response(await insights.matches_of(db, event_id))


@router.post("/{event_id}/replay", status_code=202, response_model=EmittedEvent)
async def replay(event_id: UUID, access: Replayer, wanted: Replay | None = None) -> Response:
    """Replay an event.

    The event is matched again with the current triggers, ignoring dedupe windows.
    """
    async with access.transaction() as db:
        await replay_event(
            db,
            event_id,
            actor=access.actor,
            triggers=wanted.triggers if wanted else None,
            tenant=access.tenant,
        )
    return json_response(EmittedEvent(id=event_id), 202)
