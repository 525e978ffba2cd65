"""Run a trigger manually."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from posthouse.core.definition import KindRules
from posthouse.errors import InvalidTrigger, TriggerNotFound
from posthouse.storage.definitions import rules_of
from posthouse.storage.errors import translated
from posthouse.storage.queries import Db, call, call_rows
from posthouse.trigger_jobs import event_request, filled, schedule_request
from posthouse.triggers.occasions import (
    EventSample,
    by_event,
    by_time,
    event_fields,
    misfit,
    named,
    stored_event,
)
from posthouse.triggers.stored import trigger_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """The result. ``overlap``: no job was created, because the previous one is still active and runs must not
    overlap.
    """

    outcome: Literal["fired", "overlap"]
    job_id: UUID | None
    event_id: UUID | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Made:
    outcome: Literal["fired", "overlap"] | None
    reason: str | None
    job_id: UUID | None


async def fire_trigger(
    connection: Db,
    trigger_id: UUID,
    *,
    actor: str,
    payload_limit: int,
    tenant: str | None = None,
    event: EventSample | None = None,
    event_id: UUID | None = None,
) -> Fired:
    """Create the trigger's job now, whether or not it is enabled.

    An event trigger uses a stored event, or a sample event that no other trigger receives.
    """
    trigger = await trigger_row(connection, trigger_id, tenant)
    rules = await rules_of(connection, [trigger["definition_key"]])
    now: datetime = await call(connection, "now")
    if trigger["type"] == "schedule":
        if event is not None or event_id is not None:
            raise InvalidTrigger("this trigger is a schedule; run it without an event")
        at_time = by_time(trigger, now)
        payload = filled(trigger, at_time.context, _first(rules), at_time.about, payload_limit)
        request = schedule_request(trigger, now, payload, now)
        return await _fire(connection, trigger, request, actor, nominal=now)
    event = await _event(connection, trigger, event, event_id)
    fields = event_fields(event, now, trigger["tenant_id"])
    on_event = by_event(fields, event.context)
    payload = filled(trigger, on_event.context, _first(rules), on_event.about, payload_limit)
    told = {"id": fields["id"]} if event.id else {**fields, "context": event.context}
    return await _fire(connection, trigger, event_request(trigger, fields, payload), actor, event=told)


def _first(rules: list[KindRules]) -> KindRules | None:
    return rules[0] if rules else None


async def _event(
    connection: Db, trigger: Mapping[str, Any], event: EventSample | None, event_id: UUID | None
) -> EventSample:
    """Return the event to use."""
    if event_id is not None:
        event = await stored_event(connection, event_id, trigger["tenant_id"])
    elif event is None:
        event = EventSample(name=named(trigger["event_name"]), context={})
    if reason := await misfit(connection, trigger["event_name"], event.name):
        raise InvalidTrigger(reason)
    return event


async def _fire(
    connection: Db,
    trigger: Mapping[str, Any],
    request: Mapping[str, Any],
    actor: str,
    *,
    nominal: datetime | None = None,
    event: Mapping[str, Any] | None = None,
) -> Fired:
    with translated():
        (made,) = await call_rows(
            connection, "fire_trigger", _Made, id=trigger["id"], request=json.dumps(request), nominal=nominal,
            event=None if event is None else json.dumps(event), tenant=trigger["tenant_id"], actor=actor,
        )  # fmt: skip
    if made.outcome is None:
        raise TriggerNotFound(f"trigger {trigger['id']} does not exist")
    event_id = UUID(event["id"]) if event else None
    return Fired(outcome=made.outcome, job_id=made.job_id, event_id=event_id, reason=made.reason)
