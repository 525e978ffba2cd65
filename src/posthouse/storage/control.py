"""What people do to jobs, limits, queues, tenants and workers. Each is audited with whoever did it."""

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
    ConfigurationError,
    IllegalTransition,
    InvalidBulkChange,
    JobNotFound,
    LimitNotFound,
    WorkerNotFound,
)
from posthouse.storage.errors import translated
from posthouse.storage.reading import Db, fetch_value

DEADLOCK_TRIES = 5


async def cancel_job(connection: Db, job_id: UUID, *, actor: str, tenant: str | None = None) -> str:
    """Cancel a job: ``canceled``, or ``canceling`` while its worker is being told."""
    answer = await _ask(connection, "job_cancel", job_id, actor, tenant)
    if answer in {"canceled", "canceling"}:
        return answer
    raise IllegalTransition(f"job {job_id} has already ended as {answer}: there is nothing to cancel")


async def retry_job(
    connection: Db, job_id: UUID, *, actor: str, tenant: str | None = None, fresh: bool = False
) -> str:
    """Run an ended job again, with fresh attempts; ``fresh``: also without the steps that are done."""
    answer = await _ask(connection, "job_reopen", job_id, actor, tenant, fresh=fresh)
    if answer == "queued":
        return answer
    if answer == "succeeded":
        raise IllegalTransition(f"job {job_id} has succeeded, which is final: enqueue a new one instead")
    raise IllegalTransition(
        f"job {job_id} is {answer}: only failed, canceled and dead-letter jobs are retried"
    )


async def retry_many(
    connection: Db,
    chosen: Mapping[str, Any],
    *,
    rate: float,
    stop_share: float = 0.5,
    stop_after: int = 20,
    in_seconds: float = 0.0,
    actor: str,
) -> UUID:
    """Run many ended jobs again, ``rate`` a second; the keeper does it. Returns the id of the bulk change.

    ``chosen``: fingerprint, kind, queue, tenant, since, until (of their end), limit; one of them at least. It
    halts once ``stop_after`` jobs were heard of and more than ``stop_share`` of them failed again.
    """
    wanted = {name: value for name, value in chosen.items() if value is not None}
    if not wanted.keys() & {"fingerprint", "kind", "queue", "tenant", "since"}:
        raise InvalidBulkChange("say which jobs: a failure, a kind, a queue, a tenant or a time")
    return await _start_bulk_change(
        connection, "retry", wanted, rate=rate, stop_share=stop_share, stop_after=stop_after,
        in_seconds=in_seconds, actor=actor,
    )  # fmt: skip


async def change_found(
    connection: Db,
    action: Literal["retry", "cancel"],
    chosen: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    rate: float,
    stop_share: float = 0.5,
    stop_after: int = 20,
    in_seconds: float = 0.0,
    actor: str,
) -> UUID:
    """Retry or cancel all jobs that a filter finds, in the way that ``wanted`` says. ``chosen``: its line as
    ``q``, tenant and limit. For ``in_seconds`` nothing happens, and who stops it has undone it.
    """
    return await _start_bulk_change(
        connection, action, chosen, wanted, rate=rate, stop_share=stop_share, stop_after=stop_after,
        in_seconds=in_seconds, actor=actor,
    )  # fmt: skip


async def _start_bulk_change(
    connection: Db,
    action: str,
    chosen: Mapping[str, Any],
    wanted: Mapping[str, Any] | None = None,
    *,
    rate: float,
    stop_share: float,
    stop_after: int,
    in_seconds: float,
    actor: str,
) -> UUID:
    if not 0 < rate < math.inf:
        raise InvalidBulkChange(f"a rate is a number of jobs a second above 0, not {rate:g}")
    if not 0 <= stop_share <= 1:
        raise InvalidBulkChange(f"the share to stop at is from 0 to 1, not {stop_share:g}")
    if stop_after < 1:
        raise InvalidBulkChange(f"it can stop after 1 job or more, not {stop_after}")
    bulk_id: UUID = await fetch_value(
        connection, "bulk_change_start", id=new_id(), chosen=json.dumps(dict(chosen), default=str), rate=rate,
        stop_share=stop_share, stop_after=stop_after, actor=actor, action=action,
        wanted=None if wanted is None else json.dumps(dict(wanted)), in_seconds=in_seconds,
    )  # fmt: skip
    return bulk_id


async def stop_bulk_change(connection: Db, bulk_id: UUID, *, actor: str) -> bool:
    """Change no more of its jobs; those that were go on. False: it had ended already."""
    state = await fetch_value(connection, "bulk_change_stop", id=bulk_id, actor=actor)
    if state is None:
        raise BulkChangeNotFound(f"there is no bulk change {bulk_id}")
    return state in {"gathering", "running"}


async def _ask(
    connection: Db, name: str, job_id: UUID, actor: str, tenant: str | None, **options: Any
) -> str:
    for left in reversed(range(DEADLOCK_TRIES)):
        try:
            answer = await fetch_value(connection, name, id=job_id, tenant=tenant, actor=actor, **options)
            break
        except DeadlockDetected:
            # Two people on the jobs of one dependency tree: Postgres let the other one go on. Nothing was
            # written, so it can simply be asked again, unless the caller's transaction is gone with it.
            if not left or not connection.autocommit:
                raise
    if answer is None:
        raise JobNotFound(f"there is no job {job_id}")
    return str(answer)


async def set_limit(connection: Db, name: str, fields: Mapping[str, Any], *, actor: str) -> dict[str, Any]:
    """Make or change a limit; fields that are not given stay. Returns it as it is now."""
    with translated():
        limit: dict[str, Any] = await fetch_value(
            connection, "limit_set", name=name, fields=json.dumps(dict(fields)), actor=actor
        )
    return limit


async def remove_limit(connection: Db, name: str, *, actor: str) -> None:
    if not await fetch_value(connection, "limit_remove", name=name, actor=actor):
        raise LimitNotFound(f"there is no limit {name!r}")


async def pause_queue(connection: Db, name: str, *, actor: str) -> bool:
    """Start nothing more from a queue; what runs goes on. False: it was paused already."""
    return bool(await fetch_value(connection, "queue_pause", name=name, actor=actor))


async def resume_queue(connection: Db, name: str, *, actor: str) -> bool:
    """False: it was not paused."""
    return bool(await fetch_value(connection, "queue_resume", name=name, actor=actor))


async def set_tenant_weight(connection: Db, tenant: str, weight: float, *, actor: str) -> None:
    """Give a tenant so many times the share of one with weight 1."""
    if not 0 < weight < math.inf:
        raise ConfigurationError(f"a tenant's weight is a number above 0, not {weight:g}")
    await fetch_value(connection, "tenant_weight", tenant=tenant, weight=weight, actor=actor)


async def set_tenant_retention(connection: Db, tenant: str, days: float | None, *, actor: str) -> None:
    """Keep a tenant's jobs for so many days; None: as the setting ``retention_days`` says."""
    if days is not None and not 1 <= days < math.inf:
        raise ConfigurationError(f"a tenant's jobs are kept for a day or more, not {days:g}")
    await fetch_value(connection, "tenant_retention", tenant=tenant, days=days, actor=actor)


async def note(
    connection: Db,
    action: str,
    target: str,
    after: Mapping[str, Any],
    *,
    actor: str,
    tenant: str | None = None,
) -> None:
    """Puts on record what somebody did that no function of the engine notes by itself."""
    await fetch_value(
        connection, "audit_note", actor=actor, action=action, tenant=tenant, target=target, before=None,
        after=json.dumps(dict(after)),
    )  # fmt: skip


async def disable_worker(connection: Db, worker_id: UUID, *, actor: str) -> bool:
    """Let a worker claim nothing more; it keeps what it runs. False: it was disabled already."""
    return await _tell_worker(connection, "worker_disable", worker_id, actor)


async def enable_worker(connection: Db, worker_id: UUID, *, actor: str) -> bool:
    """False: nothing kept it from claiming."""
    return await _tell_worker(connection, "worker_enable", worker_id, actor)


async def drain_worker(connection: Db, worker_id: UUID, *, actor: str) -> bool:
    """Ask a worker to finish its work and stop. False: it was asked already, or has stopped."""
    return await _tell_worker(connection, "worker_drain", worker_id, actor)


async def _tell_worker(connection: Db, name: str, worker_id: UUID, actor: str) -> bool:
    answer = await fetch_value(connection, name, id=worker_id, actor=actor)
    if answer is None:
        raise WorkerNotFound(f"there is no worker {worker_id}")
    return bool(answer)
