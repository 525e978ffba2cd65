"""Failure groups and bulk changes of their jobs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from posthouse.errors import BulkChangeNotFound, FailureNotFound, InvalidJob
from posthouse.insights.jobs import MAX_JOBS
from posthouse.insights.masking import DEFAULT_MASK, mask_for
from posthouse.storage.queries import Db, fetch, fetch_value
from posthouse.waiting import off_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Attempts of one tenant and kind that failed in the same way.

    ``message`` and ``job_id`` are those of the latest failure. ``failures`` counts attempts; ``dead_letter``,
    ``failed`` and ``canceled`` count the jobs that ended with it (canceled: a dependency did not succeed).
    ``last_hour``: failures per five minutes, the current interval last; ``last_day``: per hour.
    """

    tenant_id: str
    kind: str
    fingerprint: str
    type: str
    message: str
    job_id: UUID
    failures: int
    dead_letter: int
    failed: int
    canceled: int
    first_seen: datetime
    last_seen: datetime
    last_hour: list[int]
    last_day: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    id: UUID
    status: str
    queue: str
    attempt_count: int
    max_attempts: int
    generation: int
    subject: str | None
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDetail:
    """A failure group with the error of its latest job, while that job is stored, and its ended jobs."""

    group: FailureGroup
    error: dict[str, Any] | None
    jobs: list[FailedJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFilter:
    """A filter for failure groups.

    ``fingerprint`` may be a prefix. ``behind``: last_seen, tenant, kind and fingerprint of the last group of
    the previous page.
    """

    fingerprint: str | None = None
    kind: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    behind: tuple[datetime, str, str, str] | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_JOBS:
            raise InvalidJob(f"limit must be between 1 and {MAX_JOBS:,}, not {self.limit:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkChange:
    """A bulk retry or cancellation, which begins at ``starts_at``.

    ``failed`` counts retried jobs that failed again. ``state``: gathering, running, done (all were changed),
    stopped (by an operator) or halted (too many failed again).
    """

    id: UUID
    action: Literal["retry", "cancel"]
    state: str
    criteria: dict[str, Any]
    rate: float
    stop_share: float
    stop_after: int
    total: int | None
    retried: int
    canceled: int
    skipped: int
    succeeded: int
    failed: int
    created_at: datetime
    created_by: str
    starts_at: datetime
    ended_at: datetime | None
    reason: str | None

    @property
    def open(self) -> bool:
        return self.state in {"gathering", "running"}


async def list_failure_groups(connection: Db, criteria: FailureFilter | None = None) -> list[FailureGroup]:
    """Return the groups, latest first.

    Counts are exact: failures that no keeper has grouped yet are included.
    """
    found = await fetch(connection, "failures_list", FailureGroup, **_plain(criteria or FailureFilter()))
    return [DEFAULT_MASK.of(group) for group in found]


def _plain(criteria: FailureFilter) -> dict[str, Any]:
    values = asdict(criteria)
    if criteria.fingerprint is not None and not criteria.fingerprint.isalnum():
        raise FailureNotFound(
            f"failure group {criteria.fingerprint!r} does not exist"
        )  # LIKE would match % and _ as wildcards
    names = ("behind_at", "behind_tenant", "behind_kind", "behind_fingerprint")
    return {**values, **dict(zip(names, values.pop("behind") or (None,) * 4, strict=True))}


async def get_failure(
    connection: Db,
    fingerprint: str,
    *,
    kind: str | None = None,
    tenant: str | None = None,
    jobs: int = 10,
) -> FailureDetail:
    """Return the group with this fingerprint or prefix. If several match, return the latest."""
    criteria = FailureFilter(fingerprint=fingerprint, kind=kind, tenant=tenant, limit=1)
    groups = await list_failure_groups(connection, criteria)
    if not groups:
        raise FailureNotFound(
            f"failure group {fingerprint!r} does not exist; list failure groups with `posthouse failures`"
        )
    group = groups[0]
    error = await fetch_value(
        connection, "failure_latest_error", job_id=group.job_id, fingerprint=group.fingerprint
    )
    ended = await fetch(
        connection, "failure_jobs", FailedJob, fingerprint=group.fingerprint, kind=group.kind,
        tenant=group.tenant_id, limit=jobs,
    )  # fmt: skip
    mask = await mask_for(connection, group.job_id)
    return FailureDetail(
        group=group,
        error=None if error is None else await off_loop(mask.json, error, data=error),
        jobs=[DEFAULT_MASK.of(job) for job in ended],
    )


async def bulk_changes(
    connection: Db,
    *,
    tenant: str | None = None,
    action: Literal["retry", "cancel"] | None = None,
    before: tuple[datetime, UUID] | None = None,
    limit: int = 20,
) -> list[BulkChange]:
    """Return bulk changes, newest first; ``before``: continue after this time and id."""
    at, last = before or (None, None)
    return await fetch(
        connection, "bulk_changes_list", BulkChange, id=None, action=action, tenant=tenant, before_at=at,
        before_id=last, limit=limit,
    )  # fmt: skip


async def get_bulk_change(connection: Db, bulk_id: UUID, *, tenant: str | None = None) -> BulkChange:
    found = await fetch(
        connection, "bulk_changes_list", BulkChange, id=bulk_id, action=None, tenant=tenant, before_at=None,
        before_id=None, limit=1,
    )  # fmt: skip
    if not found:
        raise BulkChangeNotFound(f"bulk change {bulk_id} does not exist")
    return found[0]


async def count_retriable(connection: Db, criteria: dict[str, Any], *, most: int = 1_000_000) -> int:
    """Count the finished jobs that a bulk retry with this filter would include."""
    return int(
        await fetch_value(
            connection, "bulk_change_count", criteria=json.dumps(criteria, default=str), most=most
        )
    )
