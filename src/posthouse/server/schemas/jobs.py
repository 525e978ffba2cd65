"""Request and response models that are not part of insights."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from posthouse.core.filters.parser import MAX_LENGTH
from posthouse.core.request import OnDependencyFailure, OnDuplicate
from posthouse.core.request import Request as JobRequest
from posthouse.core.retry import Retry
from posthouse.errors import ConfigurationError, InvalidJob
from posthouse.insights import JobSearchPage, JobSummary, Suggestion
from posthouse.server.http.auth import Access
from posthouse.server.http.requests import ApiDatetime
from posthouse.server.http.responses import encode_cursor

MAX_NAME_LENGTH = 100
MAX_NAMES = 3
Name = Annotated[str, Field(min_length=1, max_length=512)]
Seconds = Annotated[float, Field(ge=0, le=366 * 86400)]
Priority = Annotated[
    Annotated[int, Field(ge=-(2**31), lt=2**31)] | Literal["urgent", "high", "normal", "low"],
    Field(description="Lower runs first: a number, or urgent (10), high (50), normal (100), low (200)."),
]


def _object(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    raise PydanticCustomError("dict_type", "Input should be a valid dictionary")


Object = Annotated[dict[str, Any], PlainValidator(_object, json_schema_input_type=dict[str, Any])]
"""A JSON object that is passed on as it is. pydantic would copy it, which took 26 ms for 75,000 keys."""


class ApiModel(BaseModel):
    """Base of request bodies: unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid")
    known: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.known = frozenset(item.alias or name for name, item in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def reject_unknown_fields(cls, data: Any) -> Any:
        """Name some unknown fields. pydantic would create an error for each one, which takes seconds."""
        if not isinstance(data, dict) or data.keys() <= cls.known:
            return data
        unknown = islice((name for name in data if name not in cls.known), MAX_NAMES)
        names = ", ".join(repr(name[:MAX_NAME_LENGTH]) for name in unknown)
        raise PydanticCustomError("extra_forbidden", "unknown fields: {names}", {"names": names})


class NewJob(ApiModel):
    """A job to enqueue. Fields that are omitted are taken from the definition."""

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
    payload: Object = Field(default_factory=dict)
    queue: Name | None = None
    priority: Priority | None = None
    scheduled_for: ApiDatetime | None = None
    delay_seconds: Seconds | None = Field(
        None, description="Delay in seconds; an alternative to scheduled_for."
    )
    dedupe_key: Name | None = None
    dedupe_content: bool = Field(default=False, description="Use the payload as dedupe key.")
    dedupe_window_seconds: Seconds | None = None
    on_duplicate: OnDuplicate = "existing"
    order_key: Name | None = Field(
        None, description="Jobs with the same order_key run one at a time, in order."
    )
    correlation_id: Name | None = None
    subject: Name | None = None
    depends_on: list[UUID] = Field(default_factory=list, max_length=1000, fail_fast=True)
    on_dependency_failure: OnDependencyFailure = "cancel"
    limit_key: Name | None = None
    requires: list[Name] | None = Field(None, max_length=100, fail_fast=True)
    prefers: list[Name] | None = Field(None, max_length=100, fail_fast=True)
    max_attempts: int | None = Field(None, ge=1, le=1_000_000)
    timeout_seconds: float | None = Field(None, gt=0, le=366 * 86400)
    retry: dict[str, Any] | None = Field(
        None,
        description='Retry policy: `{"ladder": [60, 300]}`, or base, factor, cap and jitter, in seconds.',
    )

    def request(self, access: Access) -> JobRequest:
        return JobRequest(
            kind=self.definition_key,
            payload=self.payload,
            tenant=access.tenant or "default",
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
        raise InvalidJob(f"invalid retry policy: {error}") from None


class EnqueuedJob(BaseModel):
    """The job of a request: a new one, or the existing one with the same dedupe key."""

    id: UUID
    tenant_id: str
    status: str
    definition_key: str
    queued_at: datetime
    outcome: Literal["created", "existing", "repeated", "rejected"]


class NewBatch(ApiModel):
    """Jobs to enqueue in one transaction: all of them, or none if one is invalid."""

    jobs: list[NewJob] = Field(min_length=1, max_length=1000, fail_fast=True)


class BatchReceipt(BaseModel):
    """The outcome for one job of a batch.

    ``rejected``: job ``id`` has the same dedupe key, and on_duplicate is reject.
    """

    id: UUID
    outcome: Literal["created", "existing", "repeated", "rejected"]


class EnqueuedBatch(BaseModel):
    """The outcomes of a batch, in the order of the request."""

    items: list[BatchReceipt]
    created: int


class JobStatusResponse(BaseModel):
    """The status of a job after the request."""

    id: UUID
    status: str


class ChangeResponse(BaseModel):
    """The result of a change. ``changed`` is false if the resource was already in that state."""

    changed: bool


class JobSelection(ApiModel):
    """A selection of jobs that match all fields. At least one field is required."""

    status: list[str] | None = Field(None, min_length=1, max_length=6, fail_fast=True)
    definition_key: Name | None = None
    queue: Name | None = None
    source: Literal["manual", "event", "schedule", "system"] | None = None
    correlation_id: Name | None = None
    subject: Name | None = None
    created_after: ApiDatetime | None = None
    created_before: ApiDatetime | None = None
    fingerprint: Name | None = Field(None, description="Fingerprint of a failure group; only for retry.")
    ended_after: ApiDatetime | None = Field(
        None, description="Only jobs that ended after this time; only for retry."
    )
    ended_before: ApiDatetime | None = Field(
        None, description="Only jobs that ended before this time; only for retry."
    )

    def given_fields(self) -> set[str]:
        return {name for name in type(self).model_fields if getattr(self, name) is not None}


class Bulk(ApiModel):
    """A bulk change: retry or cancel many jobs."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"action": "retry", "q": "kind:sync finished:<1d", "rate": 20, "dry_run": True}]
        },
    )

    action: Literal["retry", "cancel"]
    filter: JobSelection | None = None
    q: Annotated[str, Field(min_length=1, max_length=MAX_LENGTH)] | None = Field(
        None, description="Filter query; an alternative to `filter`."
    )
    dry_run: bool = Field(
        default=False, description="Count the matching jobs and return a sample, without changing any."
    )
    limit: int | None = Field(None, ge=1, le=1_000_000, description="Maximum number of jobs to change.")
    rate: float = Field(
        10.0, gt=0, le=10_000, description="Jobs per second. A cancel with `filter` is immediate."
    )
    start_in_seconds: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="Delay before the bulk change starts; stopping it earlier undoes it. Not supported for "
        "a cancel with `filter`.",
    )
    stop_share: float = Field(
        0.5, ge=0, le=1, description="Halt a retry if more than this share of its finished jobs fails again."
    )
    stop_after: int = Field(
        20, ge=1, le=1_000_000, description="Minimum finished jobs before stop_share applies."
    )


@dataclass(slots=True, kw_only=True)
class BulkResponse:
    """The result of a bulk request.

    The keeper performs the change: follow and stop it with ``bulk_id``. Only a cancel with `filter` is
    immediate, for a limited number of jobs: repeat the request while ``more`` is true.
    """

    action: Literal["retry", "cancel"]
    dry_run: bool
    matched: int
    count_limit: int
    exact: bool = True
    sample: list[JobSummary] = field(default_factory=list)
    canceled: int = 0
    canceling: int = 0
    skipped: int = 0
    more: bool = False
    bulk_id: UUID | None = None
    starts_at: datetime | None = None


Line = Annotated[
    str | None,
    Query(
        max_length=MAX_LENGTH,
        description="Filter query, for example `status:failed kind:ocr created:<2h`.",
    ),
]


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs. ``next_cursor`` is null on the last page.

    ``partial``: the search stopped before the page was full, because few jobs match. Jobs created since
    ``scanned_back_to`` were searched; `next_cursor` continues from there.
    """

    items: list[JobSummary]
    next_cursor: str | None
    partial: bool = False
    scanned_back_to: datetime | None = None


def page_of(found: JobSearchPage) -> JobPage:
    following = None if found.after is None else encode_cursor(found.after)
    return JobPage(found.jobs, following, found.partial, found.scanned_back_to)


class Suggestions(BaseModel):
    """Completions for the query text between ``from`` and ``to``, most likely first."""

    start: int = Field(alias="from")
    to: int
    items: list[Suggestion]
