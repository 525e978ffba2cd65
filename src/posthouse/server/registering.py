"""Registers remote workers and stores what their key may announce of their code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from posthouse.core.capabilities import capability_words, checked_facts, checked_worker_name
from posthouse.core.trigger import checked_trigger
from posthouse.definitions import checked_fields
from posthouse.errors import InvalidDefinition
from posthouse.identity import Role, issue_key, prefix_of
from posthouse.server.access import Access
from posthouse.server.shapes import Registration
from posthouse.server.staff import Staff


@dataclass(frozen=True, slots=True)
class Registered:
    """``announced``: the kinds whose definitions were stored. ``left_out``: the others, with the reason."""

    worker_id: UUID
    name: str
    announced: list[str]
    left_out: dict[str, str] = field(default_factory=dict)
    api_key: str | None = None


async def register(staff: Staff, access: Access, asked: Registration) -> Registered:
    """Register a worker that has its own key. The database decides what the key may announce."""
    principal = access.principal
    worker_id = asked.worker_id or uuid4()
    queues = None if principal.queues is None else list(principal.queues)
    row = _row(asked, principal.name, worker_id, principal.tenant, queues)
    definitions = [_definition(item) for item in asked.definitions]
    left_out = await staff.leases(worker_id, 30.0).announce(
        row,
        definitions,
        asked.limits,
        [_trigger(item) for item in asked.triggers],
        key=principal.key,
    )
    announced = {item["key"] for item in definitions} - set(left_out)
    return Registered(worker_id, row["name"], sorted(announced), left_out)


async def hire(staff: Staff, access: Access, asked: Registration) -> Registered:
    """Create a worker and its key, for an admin. The key is shown in the answer and never again."""
    worker_id = asked.worker_id or uuid4()
    name = checked_worker_name(asked.name) or str(worker_id)

    async def issued(connection: Any) -> str:
        return await issue_key(
            connection,
            name,
            Role.WORKER,
            tenant=asked.tenant,
            queues=asked.queues or None,
            may_announce=asked.may_announce,
            actor=access.actor,
            most=access.gate.settings.keys_per_tenant,
        )

    text = await staff.line.run(issued)
    row = _row(asked, f"key:{prefix_of(text)}", worker_id, asked.tenant, asked.queues or None)
    await staff.leases(worker_id, 30.0).announce(row, [], key=prefix_of(text))
    return Registered(worker_id, row["name"], [], api_key=text)


def _definition(announced: Mapping[str, Any]) -> dict[str, Any]:
    """An announced definition, checked by the rules for those that operators write."""
    key = announced.get("key")
    if not isinstance(key, str) or not key:
        raise InvalidDefinition("definitions: each one needs a key")
    return {"key": key, **checked_fields({name: value for name, value in announced.items() if name != "key"})}


def _trigger(announced: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: announced.get(name) for name in ("tenant_id", "name", "type")}
    fields = {name: value for name, value in announced.items() if name not in named}
    return {**checked_trigger(fields, str(named["type"])), **named}


def _row(
    asked: Registration, key: str, worker_id: UUID, tenant: str | None, queues: list[str] | None
) -> dict[str, Any]:
    checked_facts(json.dumps(asked.metadata))
    checked_facts(json.dumps(asked.capabilities))
    return {
        "name": checked_worker_name(asked.name) or f"{asked.hostname or worker_id}:{asked.pid}",
        "hostname": asked.hostname,
        "pid": asked.pid,
        "version": asked.version,
        "code": asked.code,
        "queues": asked.queues if queues is None else [name for name in asked.queues if name in queues],
        "kinds": asked.kinds,
        "concurrency": asked.concurrency,
        "capabilities": asked.capabilities,
        "offers": capability_words(",".join(asked.offers)),
        "metadata": {**asked.metadata, "remote": True},
        "heartbeat_seconds": asked.heartbeat_seconds,
        "lease_seconds": asked.lease_seconds,
        "key": key,
        "only_tenant": tenant,
        "only_queues": queues,
    }
