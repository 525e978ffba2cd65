"""Validation of the fields of a definition, and their stored form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_json

from posthouse.commands import CommandSpec
from posthouse.core.duration import seconds
from posthouse.core.request import priority_number
from posthouse.core.retry import Retry
from posthouse.core.schema import Fault, PayloadSchema, compiled
from posthouse.errors import ConfigurationError, InvalidDefinition

_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_FIELDS = PayloadSchema({
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string"},
        "queue": {"type": "string", "minLength": 1, "maxLength": 512},
        "priority": {"type": ["integer", "string"]},
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "timeout_seconds": {"type": ["number", "string", "null"], "exclusiveMinimum": 0},
        "retry": {"type": ["object", "null"]},
        "schema": {"type": "object"},
        "limits": {"type": ["object", "null"]},
        "requires": _TEXTS,
        "prefers": _TEXTS,
        "followup_queues": _TEXTS,
        "active": {"type": "boolean"},
        "redact": _TEXTS,
        "keep_steps": {"type": "boolean"},
        "keep_progress": {"type": "boolean"},
        "runner": {"enum": ["handler", "command"]},
        "command": {"type": "object"},
    },
})  # fmt: skip


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as stored. Durations may be texts (``5m``), priorities names (``high``)."""
    known, faults = read_fields(fields)
    if faults:
        raise InvalidDefinition("; ".join(fault.within("definition") for fault in faults))
    return known


def read_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the valid fields as stored, and the errors of the others."""
    known = dict(fields)
    faults = _FIELDS.faults(known)
    for name, stored in _STORED.items() if not faults else ():
        try:
            if known.get(name) is not None:
                known[name] = stored(known[name])
        except (ConfigurationError, InvalidDefinition, TypeError, ValueError) as error:
            faults.append(Fault(name, str(error)))
    return known, faults


def _stored_schema(schema: dict[str, Any]) -> dict[str, Any]:
    compiled(to_json(schema).decode())
    return schema


_STORED: dict[str, Callable[[Any], Any]] = {
    "priority": priority_number,
    "timeout_seconds": seconds,
    "retry": lambda value: Retry.from_json(value).to_json(),
    "schema": _stored_schema,
    "command": lambda value: CommandSpec.from_json(value).to_json(),
}
