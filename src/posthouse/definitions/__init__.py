"""Operator actions on definitions: create, change, activate, remove. Each action is audited.

Schemas, retry policies and commands are validated here, because the database cannot do it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posthouse.definitions.checks import (
    PayloadCheck,
    Preview,
    check_draft,
    check_payload,
    checked_fields,
    payload_problems,
    preview_command,
)
from posthouse.errors import DefinitionNotFound
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, call

__all__ = [
    "PayloadCheck",
    "Preview",
    "change_definition",
    "check_draft",
    "check_payload",
    "checked_fields",
    "create_definition",
    "payload_problems",
    "preview_command",
    "remove_definition",
]


async def create_definition(
    connection: Db, key: str, fields: Mapping[str, Any], *, actor: str
) -> dict[str, Any]:
    """Create a definition and return it as stored.

    Without a command, its jobs wait until a worker announces the handler or a command is set.
    """
    known = checked_fields(fields)
    with translate_errors():
        created: dict[str, Any] = await call(
            connection, "create_definition", key=key, fields=json.dumps(known), actor=actor
        )
    return created


async def change_definition(
    connection: Db, key: str, changes: Mapping[str, Any], *, clear: Sequence[str] = (), actor: str
) -> dict[str, Any]:
    """Override fields of the code's definition, and clear overrides."""
    known = checked_fields(changes)
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
