r"""Triggers: their fields, their payload templates, and the jobs that they create.

A payload template is JSON with placeholders such as ``{{event.folder.path}}``. Nothing is computed. A string
that is exactly one placeholder becomes the value itself, with its type. Within a longer string the value
becomes text. ``\{{`` is a literal ``{{``. A path that does not exist is an error, never an empty value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json

from posthouse.core.command.template import TemplateValues
from posthouse.core.definition import StoredDefinition, payload_error_messages
from posthouse.core.duration import seconds
from posthouse.core.payload import encode_payload
from posthouse.core.redaction.patterns import MASK
from posthouse.core.request import priority_number
from posthouse.core.schedule import Schedule
from posthouse.core.schema import PayloadSchema
from posthouse.errors import (
    ConfigurationError,
    InactiveDefinition,
    InvalidDefinition,
    InvalidSchedule,
    InvalidTemplate,
    InvalidTrigger,
    TemplateError,
)

MAX_BYTES = 65_536
MAX_DEPTH = 50
RENDERED_BYTES = 16_000_000
_MAX_NAMES = 20

_TOKEN = re.compile(r"\\\{\{|\{\{(.*?)\}\}|\{\{", re.DOTALL)
_INDEX = re.compile(r"[0-9]{1,9}\Z")
_PATH = re.compile(r"[\w-]+(\.[\w-]+)*\Z")


def check_template(template: Any, roots: frozenset[str]) -> None:
    """Raise InvalidTemplate unless this is a JSON object whose placeholders start with one of these names."""
    if not isinstance(template, Mapping):
        raise InvalidTemplate("a payload template must be a JSON object")
    if len(to_json(template)) > MAX_BYTES:
        raise InvalidTemplate(f"a payload template must have at most {MAX_BYTES:,} bytes")
    for path in _paths(template, "template", 0):
        root = path.partition(".")[0]
        if root not in roots:
            raise InvalidTemplate(f"{{{{{path}}}}} must start with one of {', '.join(sorted(roots))}")


def is_fixed(template: Any) -> bool:
    """Return whether the template has no placeholders."""
    return next(_paths(template, "template", 0), None) is None


def find_masked_value(template: Any, location: str = "template") -> str | None:
    """Return the path of a masked value ("[redacted]"), which was copied from an API response, or None."""
    if isinstance(template, Mapping):
        found = (find_masked_value(item, f"{location}.{key}") for key, item in template.items())
    elif isinstance(template, list):
        found = (find_masked_value(item, f"{location}[{index}]") for index, item in enumerate(template))
    else:
        return location if isinstance(template, str) and MASK in template else None
    return next(filter(None, found), None)


def render(template: Any, context: Mapping[str, Any]) -> Any:
    """Render the template. Raises TemplateError if a placeholder has no value."""
    return _Rendering(context).value(template)


def _paths(value: Any, location: str, depth: int) -> Iterator[str]:
    """Yield all placeholders. Raises InvalidTemplate for an invalid one."""
    if depth > MAX_DEPTH:
        raise InvalidTemplate(f"a payload template must be at most {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if "{{" in key:
                raise InvalidTemplate(
                    f"{location}: the field name {key!r} contains a placeholder; only values may"
                )
            yield from _paths(item, f"{location}.{key}", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{location}[{index}]", depth + 1)
    elif isinstance(value, str):
        for match in _TOKEN.finditer(value):
            if match[0] != "\\{{":
                yield _path_of(match, location)


def _path_of(match: re.Match[str], location: str) -> str:
    if match[1] is None:
        raise InvalidTemplate(f"{location}: the placeholder is not closed; write \\{{{{ for literal braces")
    path = match[1].strip()
    if not _PATH.match(path):
        raise InvalidTemplate(
            f"{location}: invalid placeholder {match[0]}; use a path such as {{{{event.folder.path}}}}"
        )
    return path


class _Rendering:
    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._bytes = 0
        self._found: dict[str, tuple[Any, int]] = {}

    def value(self, template: Any) -> Any:
        if isinstance(template, Mapping):
            return {key: self.value(item) for key, item in template.items()}
        if isinstance(template, list):
            return [self.value(item) for item in template]
        return self._string(template) if isinstance(template, str) else template

    def _string(self, template: str) -> Any:
        whole = _TOKEN.fullmatch(template)
        if whole is not None and whole[1] is not None and "{{" not in whole[1]:
            return self._lookup(_path_of(whole, "template"))
        return _TOKEN.sub(self._text, template)

    def _text(self, match: re.Match[str]) -> str:
        if match[0] == "\\{{":
            return "{{"
        path = _path_of(match, "template")
        value = self._lookup(path)
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, Mapping | list):
            raise TemplateError(f"{path} is {_describe(value)}, which cannot be inserted into text")
        return to_json(value).decode()

    def _lookup(self, path: str) -> Any:
        if path not in self._found:
            value = _follow(self._context, path)
            self._found[path] = value, len(to_json(value))
        value, size = self._found[path]
        self._bytes += size  # a large value can be inserted many times
        if self._bytes > RENDERED_BYTES:
            raise TemplateError(f"the payload would have more than {RENDERED_BYTES:,} bytes")
        return value


def _follow(context: Mapping[str, Any], path: str) -> Any:
    value: Any = context
    walked: list[str] = []
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.match(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            raise TemplateError(
                f"{path} is missing: {'.'.join(walked) or 'the context'} {_describe_content(value)}"
            )
        walked.append(part)
    return value


def _describe_content(value: Any) -> str:
    if isinstance(value, Mapping):
        names = sorted(map(str, value))
        more = ", …" if len(names) > _MAX_NAMES else ""
        return f"has {', '.join(names[:_MAX_NAMES])}{more}" if names else "is empty"
    if isinstance(value, list):
        return f"is a list of {len(value)}"
    return f"is {_describe(value)}"


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number")


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


def validate_trigger(fields: Mapping[str, Any], type_: str) -> dict[str, Any]:
    """Validate the fields of a trigger and return them as stored.

    Durations may be texts, priorities names.
    """
    errors = _FIELDS.error_messages(dict(fields), "trigger")
    if errors:
        raise InvalidTrigger("; ".join(errors))
    known = {name: value for name, value in fields.items() if name != "trigger_type"}
    _reject_unused_fields(known, type_)
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


def describe_trigger(trigger: Mapping[str, Any]) -> str:
    """Describe in words when the trigger creates a job."""
    if trigger.get("event_name"):
        like = "events like " if "*" in trigger["event_name"] else "event "
        return f"on {like}{trigger['event_name']}"
    try:
        return schedule_of(trigger).description
    except InvalidSchedule:  # the time zone is unknown on this machine
        return f"{trigger['cron_expr']}, {trigger['timezone']}"


def missing_fields(fields: Mapping[str, Any], type_: str) -> list[str]:
    """Return the required fields that are missing."""
    needed = ("event_name" if type_ == "event" else "cron_expr", "definition_key")
    return [name for name in needed if not fields.get(name)]


def _reject_unused_fields(fields: Mapping[str, Any], type_: str) -> None:
    """Reject fields that belong to triggers of another type."""
    for name in fields.keys() & (_OF_SCHEDULES if type_ == "event" else _OF_EVENTS):
        raise InvalidTrigger(f"trigger.{name} is not allowed for {type_} triggers")


_OF_SCHEDULES = {
    "cron_expr", "timezone", "gap", "fold", "missed", "catch_up_limit", "overlap", "jitter_seconds",
}  # fmt: skip
_OF_EVENTS = {"event_name", "dedupe_window_seconds"}


Fields = Mapping[str, Any]


def build_payload(
    trigger: Fields, context: Fields, rules: StoredDefinition | None, values: TemplateValues, limit: int
) -> str:
    """Return the payload as JSON. Raises an error with the reason if the trigger cannot create a job."""
    rules = require_definition(trigger, rules)
    payload = encode_payload(render_payload(trigger, context), limit)
    errors = payload_error_messages(rules, payload, values)
    if errors:
        raise rules.rejection(errors)
    return payload


def require_definition(trigger: Fields, rules: StoredDefinition | None) -> StoredDefinition:
    """Return the definition of the trigger's kind. Raises if it does not exist or is inactive."""
    if rules is None:
        raise InvalidDefinition(f"the definition {trigger['definition_key']!r} does not exist")
    if not rules.active:
        raise InactiveDefinition(f"jobs of kind {rules.key!r} are not accepted: its definition is inactive")
    return rules


def render_payload(trigger: Fields, context: Fields) -> Any:
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
