"""Makes remote workers known, and what of their code is to be known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from posthouse.core.capabilities import capability_words, checked_facts, checked_worker_name
from posthouse.identity import Role, issue_key, prefix_of
from posthouse.server.access import Access
from posthouse.server.shapes import Registration
from posthouse.server.staff import Staff
from posthouse.storage.queries import query


@dataclass(frozen=True, slots=True)
class Registered:
    """``announced`` are the kinds whose definitions were taken over from the worker's code."""

    worker_id: UUID
    name: str
    announced: list[str]
    api_key: str | None = None


async def register(staff: Staff, access: Access, asked: Registration) -> Registered:
    """A worker with a key of its own."""
    principal = access.principal
    worker_id = asked.worker_id or uuid4()
    kinds = await _announced(staff, access, asked)
    queues = None if principal.queues is None else list(principal.queues)
    row = _row(asked, principal.name, worker_id, principal.tenant, queues)
    await staff.leases(worker_id, 30.0).announce(
        row,
        [item for item in asked.definitions if item.get("key") in kinds],
        [item for item in asked.limits if item.get("kind") in kinds],
        [item for item in asked.triggers if item.get("definition_key") in kinds],
    )
    return Registered(worker_id, row["name"], sorted(kinds))


async def hire(staff: Staff, access: Access, asked: Registration) -> Registered:
    """For an admin: a worker, and a key for it that is shown here and never again."""
    worker_id = asked.worker_id or uuid4()
    name = checked_worker_name(asked.name) or str(worker_id)

    async def issued(connection: Any) -> str:
        return await issue_key(
            connection,
            name,
            Role.WORKER,
            tenant=asked.tenant,
            queues=asked.queues or None,
            actor=access.actor,
        )

    text = await staff.line.run(issued)
    row = _row(asked, f"key:{prefix_of(text)}", worker_id, asked.tenant, asked.queues or None)
    await staff.leases(worker_id, 30.0).announce(row, [])
    return Registered(worker_id, row["name"], [], text)


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
        "queues": asked.queues if queues is None else [name for name in asked.queues if name in queues],
        "kinds": asked.kinds,
        "concurrency": asked.concurrency,
        "capabilities": asked.capabilities,
        "offers": capability_words(",".join(asked.offers)),
        "metadata": {**asked.metadata, "remote": True},
        "key": key,
        "only_tenant": tenant,
        "only_queues": queues,
    }


async def _announced(staff: Staff, access: Access, asked: Registration) -> set[str]:
    """The kinds whose definitions this key may write: they are everybody's. One of a tenant writes none, one
    of some queues those that are in these queues and were in no other.
    """
    principal = access.principal
    if principal.tenant is not None:
        return set()
    kinds = {str(item["key"]): item.get("queue", "default") for item in asked.definitions if item.get("key")}
    if principal.queues is None or not kinds:
        return set(kinds)
    known = await staff.line.run(_queues_of(list(kinds)))
    return {
        kind
        for kind, queue in kinds.items()
        if queue in principal.queues and known.get(kind, queue) in principal.queues
    }


def _queues_of(kinds: Sequence[str]) -> Any:
    async def work(connection: Any) -> Mapping[str, str]:
        cursor = await connection.execute(query("definition_rules"), (json.dumps(kinds),))
        rules = [json.loads(row[0]) for row in await cursor.fetchall()]
        return {rule["key"]: rule["queue"] for rule in rules}

    return work
