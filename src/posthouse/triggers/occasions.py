"""The inputs of a manual run or preview: an event, or a time of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.ids import new_id
from posthouse.core.trigger import schedule_of
from posthouse.errors import EventNotFound, InvalidTrigger
from posthouse.storage.queries import Db, call, fetch
from posthouse.trigger_jobs import event_about, event_context, schedule_about, schedule_context

LOOKED_AT = 500
"""Number of latest events that are searched for a match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSample:
    """A stored or sample event. ``at`` is None for a sample."""

    id: UUID | None = None
    at: datetime | None = None
    name: str
    context: dict[str, Any]
    subject: str | None = None
    correlation_id: str | None = None
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The values for a payload template, and the attributes of the job."""

    context: dict[str, Any]
    about: dict[str, Any]


async def stored_event(connection: Db, event_id: UUID, tenant: str) -> EventSample:
    found = await fetch(connection, "event_whole", EventSample, id=event_id, tenant=tenant)
    if not found:
        raise EventNotFound(f"event {event_id} does not exist")
    return found[0]


async def latest_event(connection: Db, pattern: str, tenant: str) -> EventSample | None:
    found = await fetch(
        connection, "event_latest", EventSample, pattern=pattern, tenant=tenant, looked_at=LOOKED_AT
    )
    return found[0] if found else None


async def misfit(connection: Db, pattern: str, name: str) -> str | None:
    """Return why a trigger with this pattern does not match an event, or None if it does."""
    if await call(connection, "event_fits", pattern=pattern, name=name):
        return None
    return f"the trigger matches {pattern}, but the event is {name}"


def event_fields(event: EventSample, now: datetime, tenant: str) -> dict[str, Any]:
    """Return the event as a keeper sees it. A sample event happens now."""
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
    """Return the event name of a pattern that matches a single event."""
    if "*" in pattern:
        raise InvalidTrigger(f"the pattern {pattern} matches several events; pass event_name or event_id")
    return pattern
