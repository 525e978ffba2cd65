"""What operators do to definitions: create commands, change, activate, remove. Each is audited.

Fields are checked here as far as the database cannot: schemas, retry policies, commands.
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
    payload_problems,
    preview_command,
)
from posthouse.definitions.fields import checked_fields
from posthouse.errors import DefinitionNotFound, InvalidDefinition
from posthouse.storage.errors import translated
from posthouse.storage.reading import Db, fetch_value

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
