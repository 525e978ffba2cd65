"""Preview what a trigger would create before it is stored, even while some of its fields are invalid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.definition import StoredDefinition, payload_errors
from posthouse.core.payload import encode_payload
from posthouse.core.redaction import PLAIN
from posthouse.core.schedule import Occurrence, zone_named
from posthouse.core.schema import FieldError
from posthouse.core.trigger import (
    SCHEDULE_FIELDS,
    describe_trigger,
    missing_fields,
    render_payload,
    schedule_of,
    validate_trigger,
)
from posthouse.errors import InvalidDefinition, InvalidJob, InvalidSchedule, InvalidTrigger, TemplateError
from posthouse.storage.definitions import load_rules
from posthouse.storage.queries import Db, call
from posthouse.triggers.firing import (
    EventSample,
    TemplateContext,
    context_of_event,
    context_of_schedule,
    event_fields,
    latest_event,
    mismatch_reason,
    stored_event,
    trigger_row,
)

_UNSAVED_ID = UUID(int=0)
"""The id of a trigger that is not stored."""
_OWN = "posthouse."
_DEFAULTS: dict[str, Any] = {
    "label": "",
    "payload_template": {},
    "timezone": "UTC",
    "queue": None,
    "priority": None,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft of a trigger.

    ``rules`` is the definition of its kind; None if the definition does not exist or no kind is set yet.
    """

    trigger: dict[str, Any]
    errors: list[FieldError]
    rules: StoredDefinition | None

    @property
    def is_event_trigger(self) -> bool:
        return bool(self.trigger["type"] == "event")

    def is_valid(self, *names: str) -> bool:
        """Return whether these fields are valid."""
        return not {error.path for error in self.errors} & set(names)


async def read_draft(
    connection: Db, fields: Mapping[str, Any], stored: Mapping[str, Any] | None, tenant: str
) -> Draft:
    type_ = stored["type"] if stored else _type_of(fields)
    given, errors = _checked(fields, type_)
    base = stored or {**_DEFAULTS, "id": _UNSAVED_ID, "tenant_id": tenant}
    trigger = {**base, **given, "type": type_}
    wrong = {error.path for error in errors}
    missing = [name for name in missing_fields(trigger, type_) if name not in wrong]
    errors += [FieldError(name, f"required for {type_} triggers") for name in missing]
    if type_ == "schedule" and not SCHEDULE_FIELDS & {error.path for error in errors}:
        errors += _schedule_errors(trigger)
    rules = await _rules(connection, trigger.get("definition_key"))
    return Draft(trigger, errors + _kind_errors(trigger, rules), rules)


def _type_of(fields: Mapping[str, Any]) -> str:
    return str(fields.get("trigger_type") or ("event" if "event_name" in fields else "schedule"))


def _checked(fields: Mapping[str, Any], type_: str) -> tuple[dict[str, Any], list[FieldError]]:
    """Return the valid fields as stored and the errors of the others, each checked separately."""
    given: dict[str, Any] = {}
    errors = []
    for name, value in fields.items():
        try:
            given.update(validate_trigger({name: value}, type_))
        except InvalidTrigger as error:
            text = str(error).removeprefix(f"trigger.{name}: ").removeprefix("trigger: ")
            errors.append(FieldError(name, text))
    return given, errors


def _schedule_errors(trigger: Mapping[str, Any]) -> list[FieldError]:
    name = "timezone"
    try:
        zone_named(trigger["timezone"])
        name = "cron_expr"
        schedule_of(trigger)
    except InvalidSchedule as error:
        return [FieldError(name, str(error))]
    return []


async def _rules(connection: Db, key: str | None) -> StoredDefinition | None:
    found = await load_rules(connection, [key]) if key and not key.startswith(_OWN) else []
    return found[0] if found else None


def _kind_errors(trigger: Mapping[str, Any], rules: StoredDefinition | None) -> list[FieldError]:
    key = trigger.get("definition_key")
    if key and rules is None:
        return [FieldError("definition_key", f"definition {key!r} does not exist")]
    if rules is not None and not rules.active:
        return [
            FieldError("definition_key", f"jobs of kind {key!r} are not accepted: its definition is inactive")
        ]
    return []


NO_EVENT = "no recent event matches this trigger; pass a sample event"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerPreview:
    """The result of a preview.

    ``valid``: the trigger could be stored and would create a job from this input. ``errors`` are about its
    fields, ``payload_errors`` about the payload that its template renders. ``matched``: whether the trigger
    matches ``event``, which was given or is the latest; ``reason``: why not. ``runs``: the next runs of a
    schedule, in UTC (``at``) and local time (``local``).
    """

    valid: bool
    description: str | None = None
    errors: list[FieldError] = field(default_factory=list)
    event: EventSample | None = None
    matched: bool | None = None
    reason: str | None = None
    payload: dict[str, Any] | None = None
    payload_errors: list[FieldError] = field(default_factory=list)
    timezone: str | None = None
    runs: list[Occurrence] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewInput:
    """The input of a preview: an event, the id of a stored event, or none; and the number of runs to show."""

    event: EventSample | None = None
    event_id: UUID | None = None
    runs: int = 5
    after: datetime | None = None


async def preview_trigger(
    connection: Db,
    fields: Mapping[str, Any],
    given: PreviewInput,
    *,
    tenant: str,
    payload_limit: int,
    trigger_id: UUID | None = None,
) -> TriggerPreview:
    """Preview a trigger.

    ``fields`` may be incomplete; with ``trigger_id`` the stored fields are the defaults.
    """
    stored = await trigger_row(connection, trigger_id, tenant) if trigger_id else None
    draft = await read_draft(connection, fields, stored, tenant)
    now: datetime = await call(connection, "now")
    if draft.is_event_trigger:
        found = await _preview_event(connection, draft, given, now, payload_limit)
    else:
        found = _preview_schedule(draft, given, now, payload_limit)
    fine = not found.errors and not found.payload_errors and found.matched is not False
    return replace(found, valid=fine)


async def _preview_event(
    connection: Db, draft: Draft, given: PreviewInput, now: datetime, limit: int
) -> TriggerPreview:
    pattern, tenant = draft.trigger.get("event_name"), draft.trigger["tenant_id"]
    found = TriggerPreview(valid=False, errors=draft.errors)
    if not draft.is_valid("event_name"):
        return found
    found = replace(found, description=describe_trigger(draft.trigger))
    event = given.event
    if given.event_id is not None:
        event = _masked(await stored_event(connection, given.event_id, tenant))
    elif event is None and (latest := await latest_event(connection, str(pattern), tenant)):
        event = _masked(latest)
    if event is None:
        return replace(found, reason=NO_EVENT)
    reason = await mismatch_reason(connection, str(pattern), event.name)
    found = replace(found, event=event, matched=reason is None, reason=reason)
    if reason is not None:
        return found
    template = context_of_event(event_fields(event, now, tenant), event.context)
    return _with_payload(draft, found, template, limit)


def _preview_schedule(draft: Draft, given: PreviewInput, now: datetime, limit: int) -> TriggerPreview:
    found = TriggerPreview(valid=False, errors=draft.errors)
    if not draft.is_valid("cron_expr", "timezone", "gap", "fold"):
        return found
    schedule = schedule_of(draft.trigger)
    runs = schedule.occurrences(given.after or now, given.runs)
    found = replace(
        found, description=describe_trigger(draft.trigger), timezone=draft.trigger["timezone"], runs=runs
    )
    nominal = schedule.after(given.after or now) or now
    return _with_payload(draft, found, context_of_schedule(draft.trigger, nominal), limit)


def _with_payload(
    draft: Draft, found: TriggerPreview, template: TemplateContext, limit: int
) -> TriggerPreview:
    if not draft.is_valid("payload_template"):
        return found
    try:
        payload = render_payload(draft.trigger, template.context)
    except TemplateError as error:
        return replace(found, payload_errors=[FieldError("", str(error))])
    if draft.rules is None:
        return replace(found, payload=PLAIN.value(payload))
    errors = _payload_errors(draft.rules, payload, template, limit)
    return replace(found, payload=draft.rules.redactor.value(payload), payload_errors=errors)


def _payload_errors(
    rules: StoredDefinition, payload: Any, template: TemplateContext, limit: int
) -> list[FieldError]:
    try:
        return payload_errors(rules, encode_payload(payload, limit), template.values)
    except (InvalidJob, InvalidDefinition) as error:
        return [FieldError("", str(error))]


def _masked(event: EventSample) -> EventSample:
    """Return a stored event, masked as in lists of events."""
    return replace(event, context=PLAIN.value(event.context))
