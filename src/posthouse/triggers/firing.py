"""Fire a trigger by hand: for a stored event, a sample event, or a time of its schedule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from posthouse.core.command.template import TemplateValues
from posthouse.core.definition import StoredDefinition
from posthouse.core.ids import new_id
from posthouse.core.trigger import (
    build_payload,
    event_context,
    event_request,
    event_values,
    schedule_context,
    schedule_of,
    schedule_request,
    schedule_values,
)
from posthouse.errors import EventNotFound, InvalidTrigger, TriggerNotFound
from posthouse.storage.definitions import load_rules
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, call, call_rows, fetch, fetch_rows


async def trigger_row(connection: Db, trigger_id: UUID, tenant: str | None) -> dict[str, Any]:
    found = await fetch_rows(
        connection, "triggers_list", id=trigger_id, tenant=tenant, type=None, after=None, limit=1
    )
    if not found:
        raise TriggerNotFound(f"trigger {trigger_id} does not exist")
    return found[0]


MAX_SCANNED = 500
"""Number of latest events that are searched for a match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSample:
    """A stored event or a sample event. ``at`` is None for a sample."""

    id: UUID | None = None
    at: datetime | None = None
    name: str
    context: dict[str, Any]
    subject: str | None = None
    correlation_id: str | None = None
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """The values for a payload template, and the attributes of the job."""

    context: dict[str, Any]
    values: TemplateValues


async def stored_event(connection: Db, event_id: UUID, tenant: str) -> EventSample:
    found = await fetch(connection, "event_show", EventSample, id=event_id, tenant=tenant)
    if not found:
        raise EventNotFound(f"event {event_id} does not exist")
    return found[0]


async def latest_event(connection: Db, pattern: str, tenant: str) -> EventSample | None:
    found = await fetch(
        connection, "event_latest", EventSample, pattern=pattern, tenant=tenant, max_scanned=MAX_SCANNED
    )
    return found[0] if found else None


async def mismatch_reason(connection: Db, pattern: str, name: str) -> str | None:
    """Return why a trigger with this pattern does not match an event, or None if it does."""
    if await call(connection, "event_name_matches", pattern=pattern, name=name):
        return None
    return f"the trigger matches {pattern}, but the event is {name}"


def event_fields(event: EventSample, now: datetime, tenant: str) -> dict[str, Any]:
    """Return the event as a keeper sees it. The time of a sample event is now."""
    return {
        "id": str(event.id or new_id()),
        "at": (event.at or now).isoformat(),
        "tenant_id": tenant,
        "name": event.name,
        "subject": event.subject,
        "correlation_id": event.correlation_id,
    }


def context_of_event(fields: Mapping[str, Any], context: Any) -> TemplateContext:
    return TemplateContext(event_context(fields, context), event_values(fields))


def context_of_schedule(trigger: Mapping[str, Any], nominal: datetime) -> TemplateContext:
    context = schedule_context(trigger, schedule_of(trigger), nominal, trigger.get("last_nominal_at"))
    return TemplateContext(context, schedule_values(trigger, nominal))


def require_single_event(pattern: str) -> str:
    """Return the event name of a pattern that matches a single event."""
    if "*" in pattern:
        raise InvalidTrigger(f"the pattern {pattern} matches several events; pass event_name or event_id")
    return pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class FireResult:
    """The result of firing a trigger.

    ``overlap``: no job was created, because the previous one is still active and runs must not overlap.
    """

    outcome: Literal["fired", "overlap"]
    job_id: UUID | None
    event_id: UUID | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class _FireRow:
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
) -> FireResult:
    """Create the trigger's job now, whether or not it is enabled.

    An event trigger uses a stored event, or a sample event that no other trigger receives.
    """
    trigger = await trigger_row(connection, trigger_id, tenant)
    rules = await load_rules(connection, [trigger["definition_key"]])
    now: datetime = await call(connection, "now")
    if trigger["type"] == "schedule":
        if event is not None or event_id is not None:
            raise InvalidTrigger("this trigger is a schedule; run it without an event")
        template = context_of_schedule(trigger, now)
        payload = build_payload(trigger, template.context, _first(rules), template.values, payload_limit)
        request = schedule_request(trigger, now, payload, now)
        return await _fire(connection, trigger, request, actor, nominal=now)
    event = await _event(connection, trigger, event, event_id)
    fields = event_fields(event, now, trigger["tenant_id"])
    template = context_of_event(fields, event.context)
    payload = build_payload(trigger, template.context, _first(rules), template.values, payload_limit)
    sent = {"id": fields["id"]} if event.id else {**fields, "context": event.context}
    return await _fire(connection, trigger, event_request(trigger, fields, payload), actor, event=sent)


def _first(rules: list[StoredDefinition]) -> StoredDefinition | None:
    return rules[0] if rules else None


async def _event(
    connection: Db, trigger: Mapping[str, Any], event: EventSample | None, event_id: UUID | None
) -> EventSample:
    """Return the event to use."""
    if event_id is not None:
        event = await stored_event(connection, event_id, trigger["tenant_id"])
    elif event is None:
        event = EventSample(name=require_single_event(trigger["event_name"]), context={})
    if reason := await mismatch_reason(connection, trigger["event_name"], event.name):
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
) -> FireResult:
    with translate_errors():
        (made,) = await call_rows(
            connection, "fire_trigger", _FireRow, id=trigger["id"], request=json.dumps(request),
            event=None if event is None else json.dumps(event), nominal=nominal, tenant=trigger["tenant_id"],
            actor=actor,
        )  # fmt: skip
    if made.outcome is None:
        raise TriggerNotFound(f"trigger {trigger['id']} does not exist")
    event_id = UUID(event["id"]) if event else None
    return FireResult(outcome=made.outcome, job_id=made.job_id, event_id=event_id, reason=made.reason)
