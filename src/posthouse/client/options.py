"""The typed options of an enqueue, shared by all ways to enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from posthouse.core.duration import Duration
from posthouse.core.request import OnDependencyFailure, OnDuplicate, Source
from posthouse.core.retry import Retry


class Options(TypedDict, total=False):
    id: UUID | None
    tenant: str
    queue: str | None
    priority: int | str | None
    at: datetime | None
    delay: Duration | None
    dedupe_key: str | None
    dedupe_content: bool
    dedupe_window: Duration | None
    on_duplicate: OnDuplicate
    order_key: str | None
    depends_on: Sequence[UUID]
    on_dependency_failure: OnDependencyFailure
    limit_key: str | None
    requires: Sequence[str] | None
    prefers: Sequence[str] | None
    max_attempts: int | None
    timeout: Duration | None
    retry: Retry | None
    correlation_id: str | None
    subject: str | None
    source: Source
    source_ref: str | None
    created_by: str | None
