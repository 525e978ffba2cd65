"""Triggers and their recent runs, events and their matches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from posthouse.errors import EventNotFound, TriggerNotFound
from posthouse.insights.masking import DEFAULT_MASK, JobMask, masked
from posthouse.storage.queries import Db, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerInfo:
    id: UUID
    tenant_id: str
    name: str | None
    label: str
    enabled: bool
    type: str
    event_name: str | None
    cron_expr: str | None
    timezone: str | None
    definition_key: str
    payload_template: dict[str, Any]
    dedupe_window_seconds: float
    queue: str | None
    priority: int | None
    gap: str
    fold: str
    missed: str
    catch_up_limit: int
    overlap: str
    jitter_seconds: float
    origin: str
    next_at: datetime | None
    last_nominal_at: datetime | None
    last_fired_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo:
    """An event. ``pending``: the event, or a replay of it, has not been matched yet."""

    id: UUID
    at: datetime
    tenant_id: str
    name: str
    context: dict[str, Any]
    subject: str | None
    correlation_id: str | None
    created_by: str | None
    pending: bool
    fired: int
    deduped: int
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchInfo:
    """A match of an event with a trigger. ``outcome``: fired, deduped or error.

    ``label`` is None if the trigger was removed.
    """

    trigger_id: UUID
    label: str | None
    replay: int
    at: datetime
    outcome: str
    job_id: UUID | None
    error: str | None


async def triggers(
    connection: Db,
    *,
    tenant: str | None = None,
    type_: str | None = None,
    after: tuple[str, str, UUID] | None = None,
    limit: int | None = None,
) -> list[TriggerInfo]:
    """Return the triggers, optionally of a tenant or type.

    ``after``: continue after this tenant, label and id.
    """
    found = await fetch(
        connection,
        "triggers_list",
        TriggerInfo,
        id=None,
        tenant=tenant,
        type=type_,
        after=after and [str(part) for part in after],
        limit=limit,
    )
    return await masked(JobMask(), found)


async def get_trigger(connection: Db, trigger_id: UUID, *, tenant: str | None = None) -> TriggerInfo:
    found = await fetch(
        connection, "triggers_list", TriggerInfo, id=trigger_id, tenant=tenant, type=None, after=None, limit=1
    )
    if not found:
        raise TriggerNotFound(f"trigger {trigger_id} does not exist")
    return (await masked(JobMask(), found[:1]))[0]


async def events(
    connection: Db,
    *,
    tenant: str | None = None,
    name: str | None = None,
    before: EventInfo | tuple[datetime, UUID] | None = None,
    limit: int = 50,
) -> list[EventInfo]:
    """Return the events, newest first; ``before``: continue after this event. ``name`` may contain stars."""
    key = (before.at, before.id) if isinstance(before, EventInfo) else before
    return await _events(connection, tenant=tenant, name=name, before=key, limit=limit)


async def get_event(connection: Db, event_id: UUID, *, tenant: str | None = None) -> EventInfo:
    found = await _events(connection, event_id=event_id, tenant=tenant, limit=1)
    if not found:
        raise EventNotFound(f"event {event_id} does not exist")
    return found[0]


async def _events(
    connection: Db,
    *,
    limit: int,
    event_id: UUID | None = None,
    tenant: str | None = None,
    name: str | None = None,
    before: tuple[datetime, UUID] | None = None,
) -> list[EventInfo]:
    found = await fetch(
        connection,
        "events_list",
        EventInfo,
        id=event_id,
        tenant=tenant,
        name=name,
        before_at=before and before[0],
        before_id=before and before[1],
        limit=limit,
    )
    return await masked(JobMask(), found)


async def matches_of(connection: Db, event_id: UUID) -> list[MatchInfo]:
    """Return the matches of an event with its triggers, oldest first."""
    return await masked(JobMask(), await fetch(connection, "event_matches", MatchInfo, id=event_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOutcome:
    """A run of a trigger and the job that it created, if that is still stored.

    ``outcome``: fired; deduped (``job_id`` was created before, same payload); overlap (the previous job
    was still active); missed (no keeper created it in time, nor those up to ``missed_until``); or error.
    ``reason`` says why there is no job.
    """

    at: datetime
    outcome: Literal["fired", "deduped", "overlap", "missed", "error"]
    event_id: UUID | None
    event_name: str | None
    replay: int
    nominal_at: datetime | None
    missed_until: datetime | None
    reason: str | None
    job_id: UUID | None
    job_status: str | None
    job_started_at: datetime | None
    job_finished_at: datetime | None

    @property
    def position(self) -> datetime:
        """The cursor of this run in the list."""
        return self.nominal_at or self.at


async def outcomes_of(
    connection: Db, trigger: TriggerInfo, *, before: datetime | None = None, limit: int = 20
) -> list[TriggerOutcome]:
    """Return the runs of a trigger, latest first; ``before``: continue after this cursor."""
    name = "trigger_matches" if trigger.type == "event" else "trigger_runs"
    found = await fetch(connection, name, TriggerOutcome, id=trigger.id, before=before, limit=limit)
    return [DEFAULT_MASK.of(item) for item in found]
