"""Validation of triggers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from posthouse.core.duration import seconds
from posthouse.core.request import priority_number
from posthouse.core.schedule import Schedule
from posthouse.core.schema import PayloadSchema
from posthouse.core.template import check_template
from posthouse.errors import ConfigurationError, InvalidSchedule, InvalidTrigger

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
    """Validate the fields of a trigger and return them as stored. Durations may be texts,
    priorities names.
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
