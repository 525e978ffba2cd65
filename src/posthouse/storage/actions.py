"""Operator actions on jobs, limits, queues, tenants and workers. Each is recorded in the audit log."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from psycopg.errors import DeadlockDetected

from posthouse.core.ids import new_id
from posthouse.errors import (
    BulkChangeNotFound,
    IllegalTransition,
    InvalidBulkChange,
    InvalidTenant,
    JobNotFound,
    LimitNotFound,
    TenantActive,
    TenantExists,
    TenantNotFound,
    WorkerNotFound,
)
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db, call, fetch_value, query

DEADLOCK_TRIES = 5


async def cancel_job(connection: Db, job_id: UUID, *, actor: str, tenant: str | None = None) -> str:
    """Cancel a job. Returns ``canceled``, or ``canceling`` while its worker is being notified."""
    answer = await _ask(connection, "cancel", job_id, actor, tenant)
    if answer in {"canceled", "canceling"}:
        return answer
    raise IllegalTransition(f"job {job_id} cannot be canceled: it has already ended with status {answer}")


async def retry_job(
    connection: Db, job_id: UUID, *, actor: str, tenant: str | None = None, fresh: bool = False
) -> str:
    """Retry a finished job with a new set of attempts; with ``fresh`` also without its finished steps."""
    answer = await _ask(connection, "reopen", job_id, actor, tenant, fresh=fresh)
    if answer == "queued":
        return answer
    if answer == "succeeded":
        raise IllegalTransition(
            f"job {job_id} cannot be retried: it has succeeded; enqueue a new job instead"
        )
    if answer == "erased":
        raise IllegalTransition(f"job {job_id} cannot be retried: its payload was erased with its subject")
    raise IllegalTransition(
        f"job {job_id} cannot be retried: its status is {answer}; "
        "only failed, canceled and dead-letter jobs can be retried"
    )


async def start_bulk_retry(
    connection: Db,
    criteria: Mapping[str, Any],
    *,
    rate: float,
    stop_share: float = 0.5,
    stop_after: int = 20,
    in_seconds: float = 0.0,
    actor: str,
) -> UUID:
    """Retry many finished jobs at ``rate`` per second; the keeper does it. Returns the id of the bulk change.

    ``criteria``: fingerprint, kind, queue, tenant, since, until (of their end), limit; at least one of them.
    The change halts once ``stop_after`` retried jobs have finished and more than ``stop_share`` of them
    failed again.
    """
    given = {name: value for name, value in criteria.items() if value is not None}
    if not given.keys() & {"fingerprint", "kind", "queue", "tenant", "since"}:
        raise InvalidBulkChange(
            "no jobs selected: pass a failure group, a kind, a queue, a tenant or a time range"
        )
    return await _start(
        connection, "retry", given, rate=rate, stop_share=stop_share, stop_after=stop_after,
        in_seconds=in_seconds, actor=actor,
    )  # fmt: skip


async def start_bulk_change(
    connection: Db,
    action: Literal["retry", "cancel"],
    criteria: Mapping[str, Any],
    query: Mapping[str, Any],
    *,
    rate: float,
    stop_share: float = 0.5,
    stop_after: int = 20,
    in_seconds: float = 0.0,
    actor: str,
) -> UUID:
    """Retry or cancel all jobs that a filter finds, as ``query`` describes.

    ``criteria``: the filter as ``q``, tenant and limit. The change starts after ``in_seconds``; until then it
    can be stopped without effect.
    """
    return await _start(
        connection, action, criteria, query, rate=rate, stop_share=stop_share, stop_after=stop_after,
        in_seconds=in_seconds, actor=actor,
    )  # fmt: skip


async def _start(
    connection: Db,
    action: str,
    criteria: Mapping[str, Any],
    query: Mapping[str, Any] | None = None,
    *,
    rate: float,
    stop_share: float,
    stop_after: int,
    in_seconds: float,
    actor: str,
) -> UUID:
    if not 0 < rate < math.inf:
        raise InvalidBulkChange(f"the rate must be a positive number of jobs per second, not {rate:g}")
    if not 0 <= stop_share <= 1:
        raise InvalidBulkChange(f"the stop share must be between 0 and 1, not {stop_share:g}")
    if stop_after < 1:
        raise InvalidBulkChange(
            f"the minimum number of jobs before stopping must be 1 or more, not {stop_after}"
        )
    bulk_id: UUID = await call(
        connection, "start_bulk_change", id=new_id(), criteria=json.dumps(dict(criteria), default=str),
        rate=rate, stop_share=stop_share, stop_after=stop_after, actor=actor, action=action,
        filter=None if query is None else json.dumps(dict(query)), in_seconds=in_seconds,
    )  # fmt: skip
    return bulk_id


async def stop_bulk_change(connection: Db, bulk_id: UUID, *, actor: str) -> bool:
    """Stop a bulk change; jobs changed so far stay changed. Returns False if it had already ended."""
    state = await call(connection, "stop_bulk_change", id=bulk_id, actor=actor)
    if state is None:
        raise BulkChangeNotFound(f"bulk change {bulk_id} does not exist")
    return state in {"gathering", "running"}


async def _ask(
    connection: Db, name: str, job_id: UUID, actor: str, tenant: str | None, **options: Any
) -> str:
    for left in reversed(range(DEADLOCK_TRIES)):
        try:
            answer = await call(connection, name, id=job_id, tenant=tenant, actor=actor, **options)
            break
        except DeadlockDetected:
            # Two changes of one dependency tree deadlocked. Nothing was written, so the call can be
            # repeated, unless the caller's transaction was aborted.
            if not left or not connection.autocommit:
                raise
    if answer is None:
        raise JobNotFound(f"job {job_id} does not exist")
    return str(answer)


async def set_limit(connection: Db, name: str, fields: Mapping[str, Any], *, actor: str) -> dict[str, Any]:
    """Create or change a limit; omitted fields stay. Returns the limit."""
    with translate_errors():
        limit: dict[str, Any] = await call(
            connection, "set_limit", name=name, fields=json.dumps(dict(fields)), actor=actor
        )
    return limit


async def remove_limit(connection: Db, name: str, *, actor: str) -> None:
    if not await call(connection, "remove_limit", name=name, actor=actor):
        raise LimitNotFound(f"limit {name!r} does not exist")


async def pause_queue(connection: Db, name: str, *, actor: str) -> bool:
    """Pause a queue; running jobs continue. Returns False if it was already paused."""
    return bool(await call(connection, "pause_queue", name=name, actor=actor))


async def resume_queue(connection: Db, name: str, *, actor: str) -> bool:
    """Resume a queue. Returns False if it was not paused."""
    return bool(await call(connection, "resume_queue", name=name, actor=actor))


async def write_audit(
    connection: Db,
    action: str,
    target: str,
    after: Mapping[str, Any],
    *,
    actor: str,
    tenant: str | None = None,
) -> None:
    """Record an action that the engine does not record itself in the audit log."""
    await call(
        connection, "write_audit", actor=actor, action=action, tenant=tenant, target=target, before=None,
        after=json.dumps(dict(after)),
    )  # fmt: skip


async def disable_worker(connection: Db, worker_id: UUID, *, actor: str) -> bool:
    """Disable a worker: it only finishes the jobs that run. Returns False if it was disabled already."""
    return await _call_for_worker(connection, "disable_worker", worker_id, actor)


async def enable_worker(connection: Db, worker_id: UUID, *, actor: str) -> bool:
    """Enable a worker. Returns False if it was not disabled."""
    return await _call_for_worker(connection, "enable_worker", worker_id, actor)


async def drain_worker(connection: Db, worker_id: UUID, *, actor: str) -> bool:
    """Request that a worker drains. Returns False if it was already requested or the worker has stopped."""
    return await _call_for_worker(connection, "drain_worker", worker_id, actor)


async def _call_for_worker(connection: Db, name: str, worker_id: UUID, actor: str) -> bool:
    answer = await call(connection, name, worker=worker_id, actor=actor)
    if answer is None:
        raise WorkerNotFound(f"worker {worker_id} does not exist")
    return bool(answer)


async def create_tenant(connection: Db, tenant: str, fields: Mapping[str, Any], *, actor: str) -> None:
    """Create a tenant. ``fields``: label, weight, retention_days."""
    if not await _write(connection, "create_tenant", tenant, fields, actor):
        raise TenantExists(f"tenant {tenant!r} already exists")


async def change_tenant(connection: Db, tenant: str, fields: Mapping[str, Any], *, actor: str) -> None:
    """Change the label, weight or retention_days of a tenant; omitted fields stay."""
    if not await _write(connection, "change_tenant", tenant, fields, actor):
        raise TenantNotFound(f"tenant {tenant!r} does not exist")


async def delete_tenant(connection: Db, tenant: str, *, actor: str) -> None:
    """Delete a tenant with its keys and triggers; its finished jobs stay until retention deletes them."""
    answer = await call(connection, "delete_tenant", id=tenant, actor=actor)
    if answer is None:
        raise TenantNotFound(f"tenant {tenant!r} does not exist")
    if answer == "active":
        raise TenantActive(f"tenant {tenant!r} has unfinished jobs: wait for them to end, or cancel them")


async def _write(connection: Db, name: str, tenant: str, fields: Mapping[str, Any], actor: str) -> bool:
    _check(fields)
    with translate_errors():
        return bool(await call(connection, name, id=tenant, fields=json.dumps(dict(fields)), actor=actor))


def _check(fields: Mapping[str, Any]) -> None:
    weight, days = fields.get("weight", 1), fields.get("retention_days")
    if not 0 < weight < math.inf:
        raise InvalidTenant(f"the tenant weight must be a number above 0, not {weight:g}")
    if days is not None and not 1 <= days < math.inf:
        raise InvalidTenant(f"retention_days must be 1 or more, not {days:g}")


DEMO_KIND = "posthouse.demo"
"""The prefix is reserved: API callers and triggers cannot enqueue this kind; a single route does."""
DEMO_TENANT = "posthouse"


def demo_subject(name: str) -> str:
    """Return the subject of the jobs that run a demo."""
    return f"demo {name}"


async def enqueue_demo(connection: Db, name: str, options: dict[str, Any], *, actor: str) -> None:
    """Enqueue the demo of an application, unless a run of it is active."""
    payload = json.dumps({"name": name, **options})
    given = {"kind": DEMO_KIND, "payload": payload, "tenant": DEMO_TENANT, "subject": demo_subject(name)}
    await connection.execute(query("demo_enqueue"), {**given, "actor": actor})


async def lock_demo(connection: Db, name: str) -> bool:
    """Lock a demo until the connection is closed; False if another run has the lock."""
    return bool(await fetch_value(connection, "demo_lock", name=name))
