"""What people do to jobs. Each is audited with the name of whoever did it."""

from __future__ import annotations

from uuid import UUID

from psycopg.errors import DeadlockDetected

from posthouse.errors import IllegalTransition, JobNotFound
from posthouse.storage.reading import Db, fetch_value

DEADLOCK_TRIES = 5


async def cancel_job(connection: Db, job_id: UUID, *, actor: str, tenant: str | None = None) -> str:
    """Cancel a job: ``canceled``, or ``canceling`` while its worker is being told."""
    answer = await _ask(connection, "job_cancel", job_id, actor, tenant)
    if answer in {"canceled", "canceling"}:
        return answer
    raise IllegalTransition(f"job {job_id} has already ended as {answer}: there is nothing to cancel")


async def retry_job(connection: Db, job_id: UUID, *, actor: str, tenant: str | None = None) -> str:
    """Run an ended job again, with fresh attempts."""
    answer = await _ask(connection, "job_reopen", job_id, actor, tenant)
    if answer == "queued":
        return answer
    if answer == "succeeded":
        raise IllegalTransition(f"job {job_id} has succeeded, which is final: enqueue a new one instead")
    raise IllegalTransition(
        f"job {job_id} is {answer}: only failed, canceled and dead-letter jobs are retried"
    )


async def _ask(connection: Db, name: str, job_id: UUID, actor: str, tenant: str | None) -> str:
    for left in reversed(range(DEADLOCK_TRIES)):
        try:
            answer = await fetch_value(connection, name, id=job_id, tenant=tenant, actor=actor)
            break
        except DeadlockDetected:
            # Two people on the jobs of one dependency tree: Postgres let the other one go on. Nothing was
            # written, so it can simply be asked again, unless the caller's transaction is gone with it.
            if not left or not connection.autocommit:
                raise
    if answer is None:
        raise JobNotFound(f"there is no job {job_id}")
    return str(answer)
