"""Encode events for the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict
from uuid import UUID

from pydantic_core import to_json

from posthouse.core.ids import new_id
from posthouse.core.payload import encode_payload


class EventOptions(TypedDict, total=False):
    """The options of an event besides its name and context."""

    tenant: str
    id: UUID
    subject: str | None
    correlation_id: str | None
    created_by: str | None


def event_text(
    name: str, context: Mapping[str, Any] | None, options: EventOptions, payload_limit: int
) -> tuple[UUID, str]:
    """Return the id of the event and the JSON for sql/emit.sql. The id makes it safe to send
    the event again.
    """
    event_id = options.get("id") or new_id()
    fields: dict[str, Any] = {**options, "event": name, "id": event_id}
    fields["tenant_id"] = fields.pop("tenant", "default")
    body = encode_payload(context or {}, payload_limit)
    head = to_json(fields).decode()
    return event_id, f'[{head[:-1]},"context":{body}}}]'
