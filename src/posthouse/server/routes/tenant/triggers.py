"""Triggers: create, change, preview and fire them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query, Request, Response

from posthouse import insights
from posthouse.core.schedule import Occurrence
from posthouse.core.trigger import describe_trigger, schedule_of
from posthouse.errors import EditConflict, InvalidRequest, InvalidTrigger
from posthouse.identity import Permission
from posthouse.insights import TriggerInfo, TriggerOutcome
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import ApiDatetime, IdempotencyKey, api_router, run_idempotent
from posthouse.server.http.responses import (
    Cursor,
    Limit,
    Page,
    check_if_match,
    decode_cursor,
    decode_single_cursor,
    etag_response,
    json_response,
    page,
)
from posthouse.server.schemas.triggers import (
    FireRequest,
    NewEvent,
    NewTrigger,
    TriggerChanges,
    TriggerPreviewRequest,
)
from posthouse.storage.definitions import require_defined
from posthouse.storage.queries import Db
from posthouse.triggers import (
    EventSample,
    FireResult,
    PreviewInput,
    TriggerPreview,
    change_trigger,
    create_trigger,
    fire_trigger,
    preview_trigger,
    remove_trigger,
)

router = api_router("/jobs/triggers", "triggers", payloads=True)
Reader = Annotated[Access, allow(Permission.TRIGGERS_READ, tenant_scoped=True)]
Writer = Annotated[Access, allow(Permission.TRIGGERS_WRITE, tenant_scoped=True)]


@router.post("/preview", response_model=TriggerPreview)
async def show_trigger_preview(request: Request, trial: TriggerPreviewRequest, access: Reader) -> Response:
    """Preview a trigger.

    Returns the payload it would create from an event, its next runs, and its errors. Nothing is stored.
    """
    preview_input = PreviewInput(
        event=_sample(trial.event, trial.event_id),
        event_id=trial.event_id,
        runs=trial.runs,
        after=trial.after,
    )
    async with access.transaction() as db:
        found = await preview_trigger(
            db, trial.trigger.fields(), preview_input, tenant=access.with_default_tenant().tenant or "",
            payload_limit=_payload_limit(request), trigger_id=trial.trigger_id,
        )  # fmt: skip
    return json_response(found)


@router.post(
    "/{trigger_id}/fire",
    status_code=201,
    response_model=FireResult,
    responses={200: {"model": FireResult, "description": "No job was created; see `reason`"}},
)
async def fire(
    request: Request,
    trigger_id: UUID,
    access: Writer,
    firing: FireRequest | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Fire a trigger now.

    Creates the job even if the trigger is disabled. The dedupe window is ignored, `overlap` is respected.
    """
    wanted = firing or FireRequest()
    event = _sample(wanted.event, wanted.event_id)

    async def work(db: Db) -> Response:
        done = await fire_trigger(
            db, trigger_id, actor=access.actor, payload_limit=_payload_limit(request), tenant=access.tenant,
            event=event, event_id=wanted.event_id,
        )  # fmt: skip
        return json_response(done, 201 if done.outcome == "fired" else 200)

    return await run_idempotent(request, access, idempotency_key, work)


@router.get("/{trigger_id}/outcomes", response_model=Page[TriggerOutcome])
async def list_outcomes(
    trigger_id: UUID, access: Reader, limit: Limit = 20, cursor: Cursor = None
) -> Response:
    """List the outcomes of a trigger, latest first.

    Each is a created job, or the reason why no job was created.
    """
    before: datetime | None = decode_single_cursor(cursor, datetime)
    async with access.transaction() as db:
        trigger = await insights.get_trigger(db, trigger_id, tenant=access.tenant)
        found = await insights.outcomes_of(db, trigger, before=before, limit=limit)
    return json_response(page(found, limit, "position"))


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


MAX_RUNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(TriggerInfo):
    """A trigger. ``description``: when it creates a job."""

    description: str


def to_response(trigger: TriggerInfo) -> Trigger:
    fields: dict[str, Any] = asdict(trigger)
    return Trigger(**fields, description=describe_trigger(fields))


@router.get("", response_model=Page[Trigger])
async def list_triggers(
    access: Reader,
    trigger_type: Annotated[Literal["event", "schedule"] | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List triggers, ordered by label."""
    after: Any = decode_cursor(cursor, str, str, UUID)
    async with access.transaction() as db:
        found = await insights.triggers(
            db, tenant=access.tenant, type_=trigger_type, after=after, limit=limit
        )
    return json_response(page([to_response(item) for item in found], limit, "tenant_id", "label", "id"))


@router.post("", status_code=201, response_model=Trigger)
async def make_trigger(
    request: Request, new: NewTrigger, access: Writer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a trigger for an event or a schedule."""
    access = access.with_default_tenant()

    async def work(db: Db) -> Response:
        if new.definition_key is not None:
            await require_defined(db, [new.definition_key])
        made = await create_trigger(db, new.fields(), actor=access.actor, tenant=access.tenant or "")
        return json_response(to_response(await insights.get_trigger(db, UUID(made["id"]))), 201)

    return await run_idempotent(request, access, idempotency_key, work)


@router.get("/{trigger_id}", response_model=Trigger)
async def show_trigger(request: Request, trigger_id: UUID, access: Reader) -> Response:
    """Get a trigger.

    Send its ETag as If-Match to change it.
    """
    async with access.transaction() as db:
        found = await insights.get_trigger(db, trigger_id, tenant=access.tenant)
    return etag_response(request, to_response(found), found.version)


@router.patch("/{trigger_id}", response_model=Trigger)
async def edit_trigger(
    request: Request, trigger_id: UUID, changes: TriggerChanges, access: Writer
) -> Response:
    """Change a trigger.

    Only the fields that are sent change. With If-Match, the change fails with 412 if the trigger was modified
    since.
    """
    async with access.transaction() as db:
        old = await insights.get_trigger(db, trigger_id, tenant=access.tenant)
        check_if_match(request, old.version)
        if changes.definition_key is not None:
            await require_defined(db, [changes.definition_key])
        changed = await change_trigger(
            db, trigger_id, changes.fields(), actor=access.actor, tenant=access.tenant
        )
        if "if-match" in request.headers and changed["version"] > old.version + 1:
            raise EditConflict(  # rolls back
                f"the trigger {trigger_id} was modified since you loaded it; reload and try again"
            )
        return json_response(to_response(await insights.get_trigger(db, trigger_id)))


@router.delete("/{trigger_id}", status_code=204)
async def delete_trigger(trigger_id: UUID, access: Writer) -> Response:
    """Delete a trigger.

    Jobs that it created are kept.
    """
    async with access.transaction() as db:
        await remove_trigger(db, trigger_id, actor=access.actor, tenant=access.tenant)
    return Response(status_code=204)


@router.post("/{trigger_id}/enable", response_model=Trigger)
async def enable_trigger(trigger_id: UUID, access: Writer) -> Response:
    """Enable a trigger.

    A schedule continues with its next time; missed runs are not made up.
    """
    return await _set_enabled(trigger_id, access, enabled=True)


@router.post("/{trigger_id}/disable", response_model=Trigger)
async def disable_trigger(trigger_id: UUID, access: Writer) -> Response:
    """Disable a trigger.

    It creates no jobs until it is enabled.
    """
    return await _set_enabled(trigger_id, access, enabled=False)


async def _set_enabled(trigger_id: UUID, access: Access, *, enabled: bool) -> Response:
    async with access.transaction() as db:
        await change_trigger(db, trigger_id, {"enabled": enabled}, actor=access.actor, tenant=access.tenant)
        return json_response(to_response(await insights.get_trigger(db, trigger_id)))


@router.get("/{trigger_id}/next", response_model=list[Occurrence])
async def next_runs(
    trigger_id: UUID,
    access: Reader,
    count: Annotated[
        int, Query(ge=1, description=f"Number of runs; values above {MAX_RUNS:,} are clamped.")
    ] = 20,
    after: ApiDatetime | None = None,
) -> Response:
    """List the next runs of a schedule.

    Includes the effect of daylight saving changes on each run.
    """
    async with access.transaction() as db:
        found = await insights.get_trigger(db, trigger_id, tenant=access.tenant)
        now = await insights.database_now(db)
    if found.type != "schedule":
        raise InvalidTrigger(f"trigger {trigger_id} is not a schedule; it fires on events")
    return json_response(schedule_of(asdict(found)).occurrences(after or now, min(count, MAX_RUNS)))
