"""Validate the fields of a definition, and payloads. These are dry runs: nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from posthouse.commands import CommandSpec
from posthouse.core.command.template import TemplateValues
from posthouse.core.definition import (
    StoredDefinition,
    parse_command,
    payload_error_messages,
    payload_errors,
    render_argv,
)
from posthouse.core.duration import seconds
from posthouse.core.payload import encode_payload
from posthouse.core.request import priority_number
from posthouse.core.retry import Retry
from posthouse.core.schema import FieldError, PayloadSchema, compiled
from posthouse.errors import ConfigurationError, DefinitionNotFound, InvalidDefinition
from posthouse.storage.definitions import load_rules
from posthouse.storage.queries import Db

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


def read_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Return the valid fields as stored, and the errors of the others."""
    known = dict(fields)
    faults = _FIELDS.faults(known)
    for name, stored in _STORED.items() if not faults else ():
        try:
            if known.get(name) is not None:
                known[name] = stored(known[name])
        except (ConfigurationError, InvalidDefinition, TypeError, ValueError) as error:
            faults.append(FieldError(name, str(error)))
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


_DEFAULT_VALUES = TemplateValues(tenant_id="default")
"""Attributes of the job when only its payload is validated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The command that would run.

    ``variables`` may be set in its environment, ``secrets`` are required.
    """

    argv: list[str]
    cwd: str
    variables: list[str]
    secrets: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadCheck:
    """The result of validating a payload.

    ``active``: whether the definition accepts jobs. ``command``: the command that would run, if any.
    ``definition_errors``: why the definition itself is invalid.
    """

    valid: bool
    active: bool
    errors: list[FieldError]
    command: Preview | None = None
    definition_errors: list[FieldError] = field(default_factory=list)


async def payload_problems(
    connection: Db, key: str, payload: Mapping[str, Any], *, payload_limit: int
) -> list[str]:
    """Return the errors that an enqueue of this payload would be rejected with."""
    return payload_error_messages(
        await _rules(connection, key), encode_payload(payload, payload_limit), _DEFAULT_VALUES
    )


async def preview_command(
    connection: Db, key: str, payload: Mapping[str, Any], values: TemplateValues, *, payload_limit: int
) -> Preview:
    """Return the command that a job with this payload would run. Raises InvalidPayload."""
    rules = await _rules(connection, key)
    parse_command(rules)
    text = encode_payload(payload, payload_limit)
    problems = payload_error_messages(rules, text, values)
    if problems:
        raise rules.refusal(problems)
    return _preview(rules, text, values)


async def check_payload(
    connection: Db, key: str, payload: Mapping[str, Any], values: TemplateValues, *, payload_limit: int
) -> PayloadCheck:
    """Validate a payload against a stored definition."""
    return _checked(await _rules(connection, key), encode_payload(payload, payload_limit), values)


async def check_draft(
    connection: Db,
    key: str | None,
    fields: Mapping[str, Any],
    payload: Mapping[str, Any],
    values: TemplateValues,
    *,
    payload_limit: int,
) -> PayloadCheck:
    """Validate a payload against a definition changed by these fields. The definition need not exist."""
    text = encode_payload(payload, payload_limit)
    known, faults = read_fields(fields)
    stored = await load_rules(connection, [key]) if key else []
    if faults:
        return PayloadCheck(valid=False, active=True, errors=[], definition_errors=faults)
    try:
        return _checked(_drafted(stored[0] if stored else None, key, known), text, values)
    except InvalidDefinition as error:  # a stored definition may be invalid
        unusable = [FieldError("", str(error))]
        return PayloadCheck(valid=False, active=True, errors=[], definition_errors=unusable)


def _drafted(stored: StoredDefinition | None, key: str | None, known: Mapping[str, Any]) -> StoredDefinition:
    base = stored or StoredDefinition(key=key or "draft", overrides={})
    command = known.get("command", base.command)
    return StoredDefinition(
        key=base.key,
        active=known.get("active", base.active),
        schema=json.dumps(known["schema"]) if "schema" in known else base.schema,
        redact=tuple(known.get("redact", base.redact)),
        overrides=base.overrides,
        runner="command" if command else base.runner,
        command=command,
    )


def _checked(rules: StoredDefinition, text: str, values: TemplateValues) -> PayloadCheck:
    faults = payload_errors(rules, text, values)
    runs = rules.command is not None and not faults
    return PayloadCheck(
        valid=not faults,
        active=rules.active,
        errors=faults,
        command=_preview(rules, text, values) if runs else None,
    )


def _preview(rules: StoredDefinition, text: str, values: TemplateValues) -> Preview:
    spec = parse_command(rules)
    return Preview(
        argv=render_argv(rules, json.loads(text), values),
        cwd=spec.cwd,
        variables=sorted({*spec.inherit_env, *spec.env, *spec.secrets}),
        secrets=sorted(set(spec.secrets.values())),
    )


async def _rules(connection: Db, key: str) -> StoredDefinition:
    found = await load_rules(connection, [key])
    if not found:
        raise DefinitionNotFound(f"definition {key!r} does not exist")
    return found[0]
