"""Triggers: their fields, and the jobs that they create."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from posthouse.core.command.template import TemplateValues
from posthouse.core.definition import StoredDefinition, payload_error_messages
from posthouse.core.duration import seconds
from posthouse.core.payload import encode_payload
from posthouse.core.request import priority_number
from posthouse.core.schedule import Schedule
from posthouse.core.schema import PayloadSchema
from posthouse.core.template import check_template, render
from posthouse.errors import (
    ConfigurationError,
    InactiveDefinition,
    InvalidDefinition,
    InvalidSchedule,
    InvalidTrigger,
)

EVENT_ROOTS = frozenset({"event", "event_id", "event_name", "event_at", "tenant_id", "trigger_id"})
SCHEDULE_FIELDS = frozenset({"cron_expr", "timezone", "gap", "fold"})
SCHEDULE_ROOTS = frozenset({"schedule", "tenant_id", "trigger_id"})

_EVENT_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}\Z")
_SPAN = {"type": ["number", "string"], "minimum": 0}
_FIELDS = PayloadSchema({
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "label": {"type": "string", "maxLength": 200},
        "enabled": {"type": "boolean"},
        "trigger_type": {"enum": ["event", "schedule"]},
        "event_name": {"type": "string"},
        "cron_expr": {"type": "string", "minLength": 1, "maxLength": 200},
        "timezone": {"type": "string", "minLength": 1, "maxLength": 100},
        "definition_key": {"type": "string", "minLength": 1, "maxLength": 512},
        "payload_template": {"type": "object"},
        "dedupe_window_seconds": _SPAN,
        "queue": {"type": ["string", "null"], "minLength": 1, "maxLength": 512},
        "priority": {"type": ["integer", "string", "null"]},
        "gap": {"enum": ["next", "skip"]},
        "fold": {"enum": ["once", "twice"]},
        "missed": {"enum": ["skip", "once", "catch_up"]},
        "catch_up_limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "overlap": {"enum": ["allow", "skip", "queue"]},
        "jitter_seconds": _SPAN,
    },
})  # fmt: skip

_STORED: dict[str, Callable[[Any], Any]] = {
    "priority": priority_number,
    "dedupe_window_seconds": seconds,
    "jitter_seconds": seconds,
}


def checked_trigger(fields: Mapping[str, Any], type_: str) -> dict[str, Any]:
    """Validate the fields of a trigger and return them as stored.

    Durations may be texts, priorities names.
    """
    problems = _FIELDS.problems(dict(fields), "trigger")
    if problems:
        raise InvalidTrigger("; ".join(problems))
    known = {name: value for name, value in fields.items() if name != "trigger_type"}
    _refuse_others(known, type_)
    try:
        for name, stored in _STORED.items():
            if known.get(name) is not None:
                known[name] = stored(known[name])
    except (ConfigurationError, TypeError, ValueError) as error:
        raise InvalidTrigger(f"trigger: {error}") from None
    if "event_name" in known and not _EVENT_NAME.match(known["event_name"]):
        raise InvalidTrigger(
            "trigger.event_name: expected a name like order.paid, or order.* for all names with this prefix"
        )
    if "payload_template" in known:
        check_template(known["payload_template"], EVENT_ROOTS if type_ == "event" else SCHEDULE_ROOTS)
    return known


def schedule_of(trigger: Mapping[str, Any]) -> Schedule:
    """Return the schedule of a trigger. Raises InvalidSchedule."""
    return Schedule.parse(
        trigger["cron_expr"],
        trigger.get("timezone", "UTC"),
        gap=trigger.get("gap", "next"),
        fold=trigger.get("fold", "once"),
    )


def trigger_words(trigger: Mapping[str, Any]) -> str:
    """Describe in words when the trigger creates a job."""
    if trigger.get("event_name"):
        like = "events like " if "*" in trigger["event_name"] else "event "
        return f"on {like}{trigger['event_name']}"
    try:
        return schedule_of(trigger).words
    except InvalidSchedule:  # the time zone is unknown on this machine
        return f"{trigger['cron_expr']}, {trigger['timezone']}"


def missing_fields(fields: Mapping[str, Any], type_: str) -> list[str]:
    """Return the required fields that are missing."""
    needed = ("event_name" if type_ == "event" else "cron_expr", "definition_key")
    return [name for name in needed if not fields.get(name)]


def _refuse_others(fields: Mapping[str, Any], type_: str) -> None:
    """Reject fields that belong to triggers of another type."""
    for name in fields.keys() & (_OF_SCHEDULES if type_ == "event" else _OF_EVENTS):
        raise InvalidTrigger(f"trigger.{name} is not allowed for {type_} triggers")


_OF_SCHEDULES = {
    "cron_expr", "timezone", "gap", "fold", "missed", "catch_up_limit", "overlap", "jitter_seconds",
}  # fmt: skip
_OF_EVENTS = {"event_name", "dedupe_window_seconds"}


Fields = Mapping[str, Any]


def filled(
    trigger: Fields, context: Fields, rules: StoredDefinition | None, values: TemplateValues, limit: int
) -> str:
    """Return the payload as JSON. Raises an error with the reason if the trigger cannot create a job."""
    kind = taken(trigger, rules)
    payload = encode_payload(rendered(trigger, context), limit)
    problems = payload_error_messages(kind, payload, values)
    if problems:
        raise kind.refusal(problems)
    return payload


def taken(trigger: Fields, rules: StoredDefinition | None) -> StoredDefinition:
    """Return the definition of the trigger's kind. Raises if it does not exist or is inactive."""
    if rules is None:
        raise InvalidDefinition(f"the definition {trigger['definition_key']!r} does not exist")
    if not rules.active:
        raise InactiveDefinition(f"jobs of kind {rules.key!r} are not accepted: its definition is inactive")
    return rules


def rendered(trigger: Fields, context: Fields) -> Any:
    """Render the trigger's payload template. Raises TemplateError if a value is missing or invalid."""
    roots = {"tenant_id": trigger["tenant_id"], "trigger_id": str(trigger["id"])}
    return render(trigger["payload_template"], {**roots, **context})


def event_context(event: Fields, context: Any) -> dict[str, Any]:
    """Return the template values of an event: ``{{event.…}}``, ``{{context.…}}`` and the like."""
    return {
        "event": context,
        "event_id": str(event["id"]),
        "event_name": event["name"],
        "event_at": event["at"],
    }


def event_values(event: Fields) -> TemplateValues:
    """Return the correlation id and the other attributes that the job inherits from the event."""
    return TemplateValues(
        tenant_id=event["tenant_id"],
        correlation_id=event["correlation_id"] or str(event["id"]),
        subject=event["subject"] or "",
    )


def event_request(trigger: Fields, event: Fields, payload: str) -> dict[str, Any]:
    """Return the request as posthouse.enqueue_many expects it."""
    return {
        **_made_by(trigger, payload),
        "tenant_id": event["tenant_id"],
        "correlation_id": event["correlation_id"] or str(event["id"]),
        "subject": event["subject"],
        "source": "event",
        "source_ref": str(event["id"]),
    }


def schedule_context(
    trigger: Fields, schedule: Schedule, nominal: datetime, previous: datetime | None
) -> dict[str, Any]:
    """Return the template values of a schedule: ``{{schedule.…}}``."""
    local = nominal.astimezone(schedule.zone)
    return {
        "schedule": {
            "nominal_at": _text(nominal),
            "previous_at": None if previous is None else _text(previous),
            "local": local.isoformat(),
            "date": f"{local:%Y-%m-%d}",
            "time": f"{local:%H:%M}",
            "timezone": trigger["timezone"],
            "cron_expr": trigger["cron_expr"],
            "label": trigger["label"],
        }
    }


def schedule_values(trigger: Fields, nominal: datetime) -> TemplateValues:
    """Return the attributes that the job gets from the schedule."""
    correlation_id = f"{trigger['id']}@{_text(nominal)}"
    return TemplateValues(tenant_id=trigger["tenant_id"], correlation_id=correlation_id)


def schedule_request(trigger: Fields, nominal: datetime, payload: str, start: datetime) -> dict[str, Any]:
    """Return the request as posthouse.enqueue_many expects it."""
    return {
        **_made_by(trigger, payload),
        "tenant_id": trigger["tenant_id"],
        "correlation_id": schedule_values(trigger, nominal).correlation_id,
        "scheduled_for": start.isoformat(),
        "order_key": f"schedule:{trigger['id']}" if trigger["overlap"] == "queue" else None,
        "source": "schedule",
        "source_ref": str(trigger["id"]),
    }


def _made_by(trigger: Fields, payload: str) -> dict[str, Any]:
    return {
        "kind": trigger["definition_key"],
        "payload": json.loads(payload),
        "queue": trigger["queue"],
        "priority": trigger["priority"],
        "created_by": f"trigger:{trigger['id']}",
    }


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
