"""Previews, manual firing and outcomes of triggers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Request, Response

from posthouse import insights
from posthouse.errors import InvalidRequest
from posthouse.identity import Permission
from posthouse.insights import TriggerOutcome
from posthouse.server.access import Access, allow
from posthouse.server.answers import answer
from posthouse.server.bodies import api_router
from posthouse.server.paging import Cursor, Limit, Page, clamped, page, read_one
from posthouse.server.repeats import IdempotencyKey, once
from posthouse.server.schemas_triggers import Firing, NewEvent, TriggerTrial
from posthouse.storage.queries import Db
from posthouse.triggers import EventSample, Fired, Shown, TriggerPreview, fire_trigger, preview_trigger

router = api_router("/jobs/triggers", "triggers", payloads=True)
Reader = Annotated[Access, allow(Permission.TRIGGERS_READ, of_tenants=True)]
Writer = Annotated[Access, allow(Permission.TRIGGERS_WRITE, of_tenants=True)]


@router.post("/preview", response_model=TriggerPreview)
async def try_trigger(request: Request, trial: TriggerTrial, access: Reader) -> Response:
    """Preview a trigger.

    Returns the payload it would create from an event, its next runs, and its errors. Nothing is stored.
    """
    shown = Shown(
        event=_sample(trial.event, trial.event_id),
        event_id=trial.event_id,
        runs=trial.runs,
        after=trial.after,
    )
    async with access.session() as db:
        found = await preview_trigger(
            db, trial.trigger.fields(), shown, tenant=access.writer().whose or "",
            payload_limit=_payload_limit(request), trigger_id=trial.trigger_id,
        )  # fmt: skip
    return answer(found)


@router.post(
    "/{trigger_id}/fire",
    status_code=201,
    response_model=Fired,
    responses={200: {"model": Fired, "description": "No job was created; see `reason`"}},
)
async def fire(
    request: Request,
    trigger_id: UUID,
    access: Writer,
    firing: Firing | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Fire a trigger now.

    Creates the job even if the trigger is disabled. The dedupe window is ignored, `overlap` is respected.
    """
    wanted = firing or Firing()
    event = _sample(wanted.event, wanted.event_id)

    async def work(db: Db) -> Response:
        done = await fire_trigger(
            db, trigger_id, actor=access.actor, payload_limit=_payload_limit(request), tenant=access.whose,
            event=event, event_id=wanted.event_id,
        )  # fmt: skip
        return answer(done, 201 if done.outcome == "fired" else 200)

    return await once(request, access, idempotency_key, work)


@router.get("/{trigger_id}/outcomes", response_model=Page[TriggerOutcome])
async def list_outcomes(
    trigger_id: UUID, access: Reader, limit: Limit = 20, cursor: Cursor = None
) -> Response:
    """List the outcomes of a trigger, latest first.

    Each is a created job, or the reason why no job was created.
    """
    most = clamped(limit)
    before: datetime | None = read_one(cursor, datetime)
    async with access.session() as db:
        trigger = await insights.get_trigger(db, trigger_id, tenant=access.whose)
        found = await insights.outcomes_of(db, trigger, before=before, limit=most)
    return answer(page(found, most, "position"))


def _sample(event: NewEvent | None, event_id: UUID | None) -> EventSample | None:
    if event is None:
        return None
    if event_id is not None:
        raise InvalidRequest("event and event_id are alternatives; send only one")
    return EventSample(
        name=event.event_name,
        context=event.context,
        subject=event.subject,
        correlation_id=event.correlation_id,
    )


def _payload_limit(request: Request) -> int:
    limit: int = request.app.state.settings.max_payload_bytes
    return limit
