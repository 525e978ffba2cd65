"""Actions of operators and tenants on triggers and events.

The actions are validated here and audited in the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from posthouse.core.command.template import TemplateValues
from posthouse.core.definition import payload_error_messages
from posthouse.core.payload import encode_payload
from posthouse.core.redaction import MASK
from posthouse.core.trigger import (
    SCHEDULE_FIELDS,
    find_masked_value,
    is_fixed,
    missing_fields,
    schedule_of,
    validate_trigger,
)
from posthouse.errors import EventNotFound, InvalidTrigger, TriggerNotFound
from posthouse.storage.definitions import load_rules
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, call
from posthouse.triggers.firing import EventSample, FireResult, fire_trigger, trigger_row
from posthouse.triggers.preview import PreviewInput, TriggerPreview, preview_trigger

__all__ = [
    "EventSample",
    "FireResult",
    "PreviewInput",
    "TriggerPreview",
    "change_trigger",
    "create_trigger",
    "fire_trigger",
    "preview_trigger",
    "remove_trigger",
    "replay_event",
]

PAYLOAD_LIMIT = 1_000_000


async def create_trigger(
    connection: Db, fields: Mapping[str, Any], *, actor: str, tenant: str = "default"
) -> dict[str, Any]:
    """Create a trigger and return it as stored."""
    type_ = fields.get("trigger_type", "event" if "event_name" in fields else "schedule")
    known = validate_trigger(fields, type_)
    for name in missing_fields(known, type_):
        raise InvalidTrigger(f"trigger.{name} is required for {type_} triggers")
    if type_ == "schedule":
        known.setdefault("timezone", "UTC")
        schedule_of(known)
    _reject_masks(known)
    await _check_fixed_payload(connection, known, tenant)
    with translate_errors():
        created: dict[str, Any] = await call(
            connection,
            "create_trigger",
            tenant=tenant,
            fields=json.dumps({**known, "type": type_}),
            actor=actor,
        )
    return created


async def change_trigger(
    connection: Db, trigger_id: UUID, changes: Mapping[str, Any], *, actor: str, tenant: str | None = None
) -> dict[str, Any]:
    """Change fields of a trigger. Its type cannot be changed."""
    old = await trigger_row(connection, trigger_id, tenant)
    if changes.get("trigger_type", old["type"]) != old["type"]:
        raise InvalidTrigger("the type of a trigger cannot be changed; delete it and create a new one")
    known = validate_trigger(changes, old["type"])
    if known.keys() & SCHEDULE_FIELDS:
        schedule_of({**old, **known})
    _reject_masks(known)
    await _check_fixed_payload(connection, {**old, **known}, old["tenant_id"])
    with translate_errors():
        changed: dict[str, Any] | None = await call(
            connection,
            "change_trigger",
            id=trigger_id,
            changes=json.dumps(known),
            tenant=tenant,
            actor=actor,
        )
    if changed is None:
        raise TriggerNotFound(f"trigger {trigger_id} does not exist")
    return changed


async def remove_trigger(connection: Db, trigger_id: UUID, *, actor: str, tenant: str | None = None) -> None:
    """Remove a trigger. The jobs that it created are kept."""
    if not await call(connection, "remove_trigger", id=trigger_id, tenant=tenant, actor=actor):
        raise TriggerNotFound(f"trigger {trigger_id} does not exist")


async def replay_event(
    connection: Db,
    event_id: UUID,
    *,
    actor: str,
    triggers: Sequence[UUID] | None = None,
    tenant: str | None = None,
) -> None:
    """Match an event again, with all current triggers or with these."""
    wanted = None if triggers is None else list(triggers)
    done = await call(connection, "replay_event", id=event_id, trigger_ids=wanted, tenant=tenant, actor=actor)
    if not done:
        raise EventNotFound(f"event {event_id} does not exist")


def _reject_masks(fields: Mapping[str, Any]) -> None:
    """Reject masked values: saving a displayed trigger would overwrite the secret with the mask."""
    if path := find_masked_value(fields.get("payload_template"), "trigger.payload_template"):
        raise InvalidTrigger(
            f"{path}: {MASK} is a masked secret: enter the value again, "
            "or omit payload_template to keep the stored one"
        )


async def _check_fixed_payload(connection: Db, trigger: Mapping[str, Any], tenant: str) -> None:
    """Validate a payload without placeholders once, instead of on every run."""
    template = trigger.get("payload_template", {})
    if not is_fixed(template):
        return
    for rules in await load_rules(connection, [trigger["definition_key"]]):
        errors = payload_error_messages(
            rules, encode_payload(template, PAYLOAD_LIMIT), TemplateValues(tenant_id=tenant)
        )
        if errors:
            raise InvalidTrigger(f"invalid payload for {rules.key}: {'; '.join(errors)}")
