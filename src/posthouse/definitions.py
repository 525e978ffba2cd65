"""What operators do to definitions: create commands, change, activate, remove. Each is audited.

Fields are checked here as far as the database cannot: schemas, retry policies, commands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from posthouse.commands import CommandSpec
from posthouse.commands.payloads import arguments, spec_of
from posthouse.commands.payloads import problems_with as payload_problems
from posthouse.core.duration import seconds
from posthouse.core.kind import KindRules
from posthouse.core.payload import encode_payload
from posthouse.core.priority import priority_number
from posthouse.core.retry import Retry
from posthouse.core.schema import PayloadSchema, compiled
from posthouse.errors import ConfigurationError, DefinitionNotFound, InvalidCommand, InvalidDefinition
from posthouse.storage.definitions import rules_of
from posthouse.storage.errors import translated
from posthouse.storage.reading import Db, fetch_value

ANYBODY = {"tenant_id": "default", "correlation_id": "", "subject": ""}
"""Of a job of which only the payload is in question."""

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
        "active": {"type": "boolean"},
        "redact": _TEXTS,
        "keep_steps": {"type": "boolean"},
        "keep_progress": {"type": "boolean"},
        "runner": {"enum": ["handler", "command"]},
        "command": {"type": "object"},
    },
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What would run. ``variables`` may be set in its environment, ``secrets`` are needed for it."""

    argv: list[str]
    cwd: str
    variables: list[str]
    secrets: list[str]


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored. Durations may be texts (``5m``), priorities names (``high``)."""
    problems = _FIELDS.problems(dict(fields), "definition")
    if problems:
        raise InvalidDefinition("; ".join(problems))
    known = dict(fields)
    try:
        for name, stored in _STORED.items():
            if known.get(name) is not None:
                known[name] = stored(known[name])
    except InvalidCommand as error:
        raise InvalidDefinition(f"definition.command: {error}") from None
    except (ConfigurationError, TypeError, ValueError) as error:
        raise InvalidDefinition(f"definition: {error}") from None
    return known


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


async def create_definition(
    connection: Db, key: str, fields: Mapping[str, Any], *, actor: str
) -> dict[str, Any]:
    """Create a command. Returns the definition as it is stored."""
    known = checked_fields(fields)
    if "command" not in known:
        raise InvalidDefinition("a definition that an operator creates is a command: it needs one")
    with translated():
        created: dict[str, Any] = await fetch_value(
            connection, "definition_create", key=key, fields=json.dumps(known), actor=actor
        )
    return created


async def change_definition(
    connection: Db, key: str, changes: Mapping[str, Any], *, clear: Sequence[str] = (), actor: str
) -> dict[str, Any]:
    """Set fields over what the code says, and give cleared ones back to it."""
    known = checked_fields(changes)
    with translated():
        changed: dict[str, Any] | None = await fetch_value(
            connection,
            "definition_change",
            key=key,
            changes=json.dumps(known),
            clear=list(clear),
            actor=actor,
        )
    if changed is None:
        raise DefinitionNotFound(f"there is no definition {key!r}")
    return changed


async def remove_definition(connection: Db, key: str, *, actor: str, force: bool = False) -> None:
    """Refused while jobs of this kind are queued or running, unless forced."""
    with translated():
        removed = await fetch_value(connection, "definition_remove", key=key, actor=actor, force=force)
    if not removed:
        raise DefinitionNotFound(f"there is no definition {key!r}")


async def problems_with(
    connection: Db, key: str, payload: Mapping[str, Any], *, payload_limit: int
) -> list[str]:
    """What an enqueue of this payload would be refused for."""
    return payload_problems(await _rules(connection, key), encode_payload(payload, payload_limit), ANYBODY)


async def preview_command(
    connection: Db, key: str, payload: Mapping[str, Any], about: Mapping[str, Any], *, payload_limit: int
) -> Preview:
    """The command that a job with this payload would run; raises InvalidPayload if there would be none."""
    rules = await _rules(connection, key)
    spec = spec_of(rules)
    text = encode_payload(payload, payload_limit)
    problems = payload_problems(rules, text, about)
    if problems:
        raise rules.refusal(problems)
    return Preview(
        argv=arguments(rules, json.loads(text), about),
        cwd=spec.cwd,
        variables=sorted({*spec.inherit_env, *spec.env, *spec.secrets}),
        secrets=sorted(set(spec.secrets.values())),
    )


async def _rules(connection: Db, key: str) -> KindRules:
    found = await rules_of(connection, [key])
    if not found:
        raise DefinitionNotFound(f"there is no definition {key!r}")
    return found[0]
