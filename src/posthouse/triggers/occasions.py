"""What sets a trigger off, by hand or for show: an event, or a time of its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.ids import new_id
from posthouse.core.trigger import schedule_of
from posthouse.errors import EventNotFound, InvalidTrigger
from posthouse.storage.reading import Db, fetch, fetch_value
from posthouse.trigger_jobs import event_about, event_context, schedule_about, schedule_context

LOOKED_AT = 500
"""Events among which the latest one that fits is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSample:
    """Something that happened, or could. ``at`` is None if it did not."""

    id: UUID | None = None
    at: datetime | None = None
    name: str
    context: dict[str, Any]
    subject: str | None = None
    correlation_id: str | None = None
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a payload template is filled with, and what the job belongs to."""

    context: dict[str, Any]
    about: dict[str, Any]


async def stored_event(connection: Db, event_id: UUID, tenant: str) -> EventSample:
    found = await fetch(connection, "event_whole", EventSample, id=event_id, tenant=tenant)
    if not found:
        raise EventNotFound(f"there is no event {event_id}")
    return found[0]


async def latest_event(connection: Db, pattern: str, tenant: str) -> EventSample | None:
    found = await fetch(
        connection, "event_latest", EventSample, pattern=pattern, tenant=tenant, looked_at=LOOKED_AT
    )
    return found[0] if found else None


async def misfit(connection: Db, pattern: str, name: str) -> str | None:
    """Why a trigger with this pattern would not see an event; None if it would."""
    if await fetch_value(connection, "event_fits", pattern=pattern, name=name):
        return None
    return f"it is for {pattern}, and the event is {name}"


def event_fields(event: EventSample, now: datetime, tenant: str) -> dict[str, Any]:
    """As a keeper has it; one that did not happen does so now."""
    return {
        "id": str(event.id or new_id()),
        "at": (event.at or now).isoformat(),
        "tenant_id": tenant,
        "name": event.name,
        "subject": event.subject,
        "correlation_id": event.correlation_id,
    }


def by_event(fields: Mapping[str, Any], context: Any) -> Occasion:
    return Occasion(event_context(fields, context), event_about(fields))


def by_time(trigger: Mapping[str, Any], nominal: datetime) -> Occasion:
    context = schedule_context(trigger, schedule_of(trigger), nominal, trigger.get("last_nominal_at"))
    return Occasion(context, schedule_about(trigger, nominal))


def named(pattern: str) -> str:
    """The name of an event that a trigger is for, if there is but one."""
    if "*" in pattern:
        raise InvalidTrigger(f"it is for many events, {pattern}: say which one, or give a stored one")
    return pattern
