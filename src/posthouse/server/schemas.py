"""What requests and answers are like, where no part of the read side says so already."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from posthouse.core.filters.reading import LONGEST
from posthouse.core.request import OnDependencyFailure, OnDuplicate
from posthouse.core.request import Request as JobRequest
from posthouse.core.retry import Retry
from posthouse.errors import ConfigurationError, InvalidJob
from posthouse.insights import JobSummary
from posthouse.server.access import Access
from posthouse.server.moments import Moment

Name = Annotated[str, Field(min_length=1, max_length=512)]
Seconds = Annotated[float, Field(ge=0, le=366 * 86400)]
Priority = Annotated[
    Annotated[int, Field(ge=-(2**31), lt=2**31)] | Literal["urgent", "high", "normal", "low"],
    Field(description="A number, lower first; or urgent (10), high (50), normal (100), low (200)."),
]


class Strict(BaseModel):
    """A misspelled field is an error and not a default."""

    model_config = ConfigDict(extra="forbid")


class NewJob(Strict):
    """A job to run. What is left out comes from its definition."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "definition_key": "recompute-tags",
                    "payload": {"model": "small"},
                    "priority": 100,
                    "dedupe_key": "acme:training:daily",
                }
            ]
        },
    )

    definition_key: Name
    payload: dict[str, Any] = Field(default_factory=dict)
    queue: Name | None = None
    priority: Priority | None = None
    scheduled_for: Moment | None = None
    delay_seconds: Seconds | None = Field(None, description="Instead of scheduled_for.")
    dedupe_key: Name | None = None
    dedupe_content: bool = Field(default=False, description="Its payload is its dedupe key.")
    dedupe_window_seconds: Seconds | None = None
    on_duplicate: OnDuplicate = "existing"
    order_key: Name | None = Field(None, description="Jobs with the same one run one after the other.")
    correlation_id: Name | None = None
    subject: Name | None = None
    depends_on: list[UUID] = Field(default_factory=list, max_length=1000)
    on_dependency_failure: OnDependencyFailure = "cancel"
    limit_key: Name | None = None
    requires: list[Name] | None = Field(None, max_length=100)
    prefers: list[Name] | None = Field(None, max_length=100)
    max_attempts: int | None = Field(None, ge=1, le=1_000_000)
    timeout_seconds: float | None = Field(None, gt=0, le=366 * 86400)
    retry: dict[str, Any] | None = Field(
        None, description='`{"ladder": [60, 300]}`, or base, factor, cap and jitter, in seconds.'
    )

    def request(self, access: Access) -> JobRequest:
        return JobRequest(
            kind=self.definition_key,
            payload=self.payload,
            tenant=access.whose or "default",
            queue=self.queue,
            priority=self.priority,
            at=self.scheduled_for,
            delay=self.delay_seconds,
            dedupe_key=self.dedupe_key,
            dedupe_content=self.dedupe_content,
            dedupe_window=self.dedupe_window_seconds,
            on_duplicate=self.on_duplicate,
            order_key=self.order_key,
            correlation_id=self.correlation_id,
            subject=self.subject,
            depends_on=self.depends_on,
            on_dependency_failure=self.on_dependency_failure,
            limit_key=self.limit_key,
            requires=self.requires,
            prefers=self.prefers,
            max_attempts=self.max_attempts,
            timeout=self.timeout_seconds,
            retry=None if self.retry is None else _retry(self.retry),
            created_by=access.actor,
        )


def _retry(fields: dict[str, Any]) -> Retry:
    try:
        return Retry.from_json(fields)
    except (ConfigurationError, TypeError, ValueError) as error:
        raise InvalidJob(f"retry: {error}") from None


class EnqueuedJob(BaseModel):
    """The job that stands for a request. ``outcome``: created, or existing (another has its dedupe key)."""

    id: UUID
    tenant_id: str
    status: str
    definition_key: str
    queued_at: datetime
    outcome: Literal["created", "existing", "repeated", "rejected"]


class NewBatch(Strict):
    """Jobs that are enqueued in one transaction: all of them, or none if one is refused."""

    jobs: list[NewJob] = Field(min_length=1, max_length=1000)


class BatchReceipt(BaseModel):
    """What became of one. ``id`` is the job that stands for it. Rejected: another has its dedupe key, and
    on_duplicate said reject.
    """

    id: UUID
    outcome: Literal["created", "existing", "repeated", "rejected"]


class EnqueuedBatch(BaseModel):
    items: list[BatchReceipt]
    created: int


class Answer(BaseModel):
    id: UUID
    status: str


class Done(BaseModel):
    """``changed`` is false if it was so already."""

    changed: bool


class JobChoice(Strict):
    """Which jobs. Those that are left out do not matter, but one must be there."""

    status: list[str] | None = Field(None, min_length=1, max_length=6)
    kind: Name | None = None
    definition_key: Name | None = Field(None, description="Another name for kind.")
    queue: Name | None = None
    source: Literal["manual", "event", "schedule", "system"] | None = None
    correlation_id: Name | None = None
    subject: Name | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None
    fingerprint: Name | None = Field(None, description="Of a failure; only to retry.")
    ended_after: Moment | None = Field(None, description="Only to retry.")
    ended_before: Moment | None = Field(None, description="Only to retry.")

    @property
    def of_kind(self) -> str | None:
        return self.kind or self.definition_key

    def given(self) -> set[str]:
        return {name for name in type(self).model_fields if getattr(self, name) is not None}


class Bulk(Strict):
    """Something done to many jobs."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"action": "retry", "q": "kind:sync finished:<1d", "rate": 20, "dry_run": True}]
        },
    )

    action: Literal["retry", "cancel"]
    filter: JobChoice | None = None
    q: Annotated[str, Field(min_length=1, max_length=LONGEST)] | None = Field(
        None, description="A line of the filter language, instead of filter."
    )
    dry_run: bool = Field(default=False, description="Only count, and show some.")
    limit: int | None = Field(None, ge=1, le=1_000_000, description="At most so many.")
    rate: float = Field(
        10.0, gt=0, le=10_000, description="So many a second; a cancel by filter is done at once."
    )
    start_in_seconds: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="Nothing happens before; who stops it until then has undone it. With q, or a retry.",
    )
    stop_share: float = Field(
        0.5, ge=0, le=1, description="A retry halts if more than this share fails again …"
    )
    stop_after: int = Field(20, ge=1, le=1_000_000, description="… once so many were heard of.")


class BulkAnswer(BaseModel):
    """What was done, and what will be.

    ``matched``: the jobs that the filter finds now, counted up to ``counted_up_to``; if it is not ``exact``
    there are that many at least. The keeper does it: ``bulk_id`` says where to look and what to stop. Only a
    cancel by `filter` is done now, up to a number of jobs: ``more`` says that there are others, for the
    next request. ``sample``: with a dry run by `q`, the first of them.
    """

    action: Literal["retry", "cancel"]
    dry_run: bool
    matched: int
    counted_up_to: int
    exact: bool = True
    sample: list[JobSummary] = Field(default_factory=list)
    canceled: int = 0
    canceling: int = 0
    skipped: int = 0
    more: bool = False
    bulk_id: UUID | None = None
    starts_at: datetime | None = None
