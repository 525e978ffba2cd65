"""Operator actions on definitions, which are audited, and dry runs of definitions and payloads.

Schemas, retry policies and commands are validated here, because the database cannot do it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from posthouse.core.schema import FieldError, PayloadSchema, compile_schema
from posthouse.errors import ConfigurationError, DefinitionNotFound, InvalidDefinition
from posthouse.storage.definitions import load_rules
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, call


async def create_definition(
    connection: Db, key: str, fields: Mapping[str, Any], *, actor: str
) -> dict[str, Any]:
    """Create a definition and return it as stored.

    Without a command, its jobs wait until a worker announces the handler or a command is set.
    """
    known = validate_fields(fields)
    with translate_errors():
        created: dict[str, Any] = await call(
            connection, "create_definition", key=key, fields=json.dumps(known), actor=actor
        )
    return created


async def change_definition(
    connection: Db, key: str, changes: Mapping[str, Any], *, clear: Sequence[str] = (), actor: str
) -> dict[str, Any]:
    """Override fields of the code's definition, and clear overrides."""
    known = validate_fields(changes)
    with translate_errors():
        changed: dict[str, Any] | None = await call(
            connection,
            "change_definition",
            key=key,
            changes=json.dumps(known),
            clear=list(clear),
            actor=actor,
        )
    if changed is None:
        raise DefinitionNotFound(f"definition {key!r} does not exist")
    return changed


async def remove_definition(connection: Db, key: str, *, actor: str, force: bool = False) -> None:
    """Remove a definition.

    The removal is rejected while jobs of this kind are queued or running, unless ``force`` is set.
    """
    with translate_errors():
        removed = await call(connection, "remove_definition", key=key, actor=actor, force=force)
    if not removed:
        raise DefinitionNotFound(f"definition {key!r} does not exist")


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


def validate_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as stored. Durations may be texts (``5m``), priorities names (``high``)."""
    known, errors = parse_fields(fields)
    if errors:
        raise InvalidDefinition("; ".join(error.within("definition") for error in errors))
    return known


def parse_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Return the valid fields as stored, and the errors of the others."""
    known = dict(fields)
    errors = _FIELDS.errors(known)
    for name, stored in _STORED.items() if not errors else ():
        try:
            if known.get(name) is not None:
                known[name] = stored(known[name])
        except (ConfigurationError, InvalidDefinition, TypeError, ValueError) as error:
            errors.append(FieldError(name, str(error)))
    return known, errors


def _stored_schema(schema: dict[str, Any]) -> dict[str, Any]:
    compile_schema(to_json(schema).decode())
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
class CommandPreview:
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
    command: CommandPreview | None = None
    definition_errors: list[FieldError] = field(default_factory=list)


async def validate_payload(
    connection: Db, key: str, payload: Mapping[str, Any], *, payload_limit: int
) -> list[str]:
    """Return the errors that an enqueue of this payload would be rejected with."""
    return payload_error_messages(
        await _rules(connection, key), encode_payload(payload, payload_limit), _DEFAULT_VALUES
    )


async def preview_command(
    connection: Db, key: str, payload: Mapping[str, Any], values: TemplateValues, *, payload_limit: int
) -> CommandPreview:
    """Return the command that a job with this payload would run. Raises InvalidPayload."""
    rules = await _rules(connection, key)
    parse_command(rules)
    text = encode_payload(payload, payload_limit)
    errors = payload_error_messages(rules, text, values)
    if errors:
        raise rules.rejection(errors)
    return _preview(rules, text, values)


async def check_payload(
    connection: Db, key: str, payload: Mapping[str, Any], values: TemplateValues, *, payload_limit: int
) -> PayloadCheck:
    """Validate a payload against a stored definition."""
    return _check(await _rules(connection, key), encode_payload(payload, payload_limit), values)


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
    known, errors = parse_fields(fields)
    stored = await load_rules(connection, [key]) if key else []
    if errors:
        return PayloadCheck(valid=False, active=True, errors=[], definition_errors=errors)
    try:
        return _check(_merge_draft(stored[0] if stored else None, key, known), text, values)
    except InvalidDefinition as error:  # a stored definition may be invalid
        invalid = [FieldError("", str(error))]
        return PayloadCheck(valid=False, active=True, errors=[], definition_errors=invalid)


def _merge_draft(
    stored: StoredDefinition | None, key: str | None, known: Mapping[str, Any]
) -> StoredDefinition:
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


def _check(rules: StoredDefinition, text: str, values: TemplateValues) -> PayloadCheck:
    errors = payload_errors(rules, text, values)
    runs = rules.command is not None and not errors
    return PayloadCheck(
        valid=not errors,
        active=rules.active,
        errors=errors,
        command=_preview(rules, text, values) if runs else None,
    )


def _preview(rules: StoredDefinition, text: str, values: TemplateValues) -> CommandPreview:
    spec = parse_command(rules)
    return CommandPreview(
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
