"""A request to enqueue one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, Unpack
from uuid import UUID

from pydantic_core import to_json

from posthouse.core.capabilities import check_capability
from posthouse.core.command.template import TemplateValues
from posthouse.core.duration import Duration, seconds
from posthouse.core.payload import encode_payload, payload_bytes
from posthouse.core.retry import Retry
from posthouse.errors import ConfigurationError, InvalidJob

OnDuplicate: TypeAlias = Literal["existing", "reject", "replace", "reuse"]
OnDependencyFailure: TypeAlias = Literal["cancel", "run", "wait"]
Source: TypeAlias = Literal["manual", "event", "schedule", "system"]

_CHOICES = {
    "on_duplicate": ("existing", "reject", "replace", "reuse"),
    "on_dependency_failure": ("cancel", "run", "wait"),
    "source": ("manual", "event", "schedule", "system"),
}
_TEXT_LIMIT = 512
_TEXTS = frozenset({
    "queue", "tenant", "dedupe_key", "order_key", "limit_key", "correlation_id", "subject", "source_ref",
    "created_by",
})  # fmt: skip
_UNWANTED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
PRIORITY_NAMES = {"urgent": 10, "high": 50, "normal": 100, "low": 200}
"""Priorities are integers, lower first; four have names."""
_PRIORITY_RANGE = range(-(2**31), 2**31)
_MAX_ATTEMPTS = 1_000_000


class EnqueueOptions(TypedDict, total=False):
    """The options of an enqueue, shared by all ways to enqueue."""

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


class RequestOptions(EnqueueOptions, total=False):
    """All fields of a request besides its kind and payload."""

    parent_id: UUID | None
    trace: str | None
    implied: frozenset[str] | None
    code: Callable[[], dict[str, Any]] | None


@dataclass(frozen=True, init=False)
class Request:
    """A request to enqueue one job, for ``Client.submit`` and ``Client.enqueue_many``.

    Only ``kind`` is required. The other fields are the "Enqueue options" below; a field that is omitted is
    taken from the job's definition.
    """

    # Defaults are class attributes and only the given options are stored and checked: a request with a
    # payload takes 0.6 µs instead of 3.7 µs for one that stores and checks all 30 fields.
    kind: str
    payload: Mapping[str, Any]
    id: UUID | None = None
    tenant: str = "default"
    queue: str | None = None
    priority: int | str | None = None
    at: datetime | None = None
    delay: Duration | None = None
    dedupe_key: str | None = None
    dedupe_content: bool = False
    dedupe_window: Duration | None = None
    on_duplicate: OnDuplicate = "existing"
    order_key: str | None = None
    depends_on: Sequence[UUID] = ()
    on_dependency_failure: OnDependencyFailure = "cancel"
    limit_key: str | None = None
    requires: Sequence[str] | None = None
    prefers: Sequence[str] | None = None
    max_attempts: int | None = None
    timeout: Duration | None = None
    retry: Retry | None = None
    correlation_id: str | None = None
    subject: str | None = None
    source: Source = "manual"
    source_ref: str | None = None
    created_by: str | None = None
    parent_id: UUID | None = None
    trace: str | None = None
    """The W3C traceparent that the job's spans continue; set if tracing is on."""
    implied: frozenset[str] | None = field(default=None, repr=False, compare=False)
    """Names of the options that come from a handler's definition in this process, not from the caller.

    Overrides by an operator take precedence over them. None if no handler has validated the payload.
    """
    code: Callable[[], dict[str, Any]] | None = field(default=None, repr=False, compare=False)
    """A function that returns what the statement announce_missing stores if the kind has no definition.

    None if the handler is not known in this process.
    """
    has_options: ClassVar[bool] = False
    """Whether any option is given."""

    def __init__(
        self, *, kind: str, payload: Mapping[str, Any] | None = None, **options: Unpack[RequestOptions]
    ) -> None:
        _set(self, "kind", kind)
        _set(self, "payload", {} if payload is None else payload)
        if not kind:
            raise InvalidJob("kind must not be empty")
        _check_text("kind", kind)
        if options:
            if unknown := options.keys() - _OPTIONS:
                raise TypeError(f"Request() got an unexpected keyword argument {min(unknown)!r}")
            self.__dict__.update(options, has_options=True)
            self._check(options)

    @property
    def template_values(self) -> TemplateValues:
        """Return the values that a command template may use besides the payload."""
        return TemplateValues(tenant_id=self.tenant, correlation_id=self.correlation_id, subject=self.subject)

    def _check(self, options: RequestOptions) -> None:
        if self.at is not None and self.delay is not None:
            raise InvalidJob("pass either at or delay, not both")
        if self.at is not None and self.at.tzinfo is None:
            raise InvalidJob(f"the time {self.at} has no time zone; pass an aware datetime")
        if self.max_attempts is not None and not 1 <= self.max_attempts <= _MAX_ATTEMPTS:
            raise InvalidJob(f"max_attempts must be from 1 to {_MAX_ATTEMPTS:,}, not {self.max_attempts}")
        for name, value in options.items():
            if name in _CHOICES:
                if value not in _CHOICES[name]:
                    raise InvalidJob(f"{name} must be one of {', '.join(_CHOICES[name])}, not {value!r}")
            elif name in _TEXTS and value is not None:
                _check_text(name, getattr(self, name))
        for word in (*(self.requires or ()), *(self.prefers or ())):
            _check_capability(word)

    @property
    def plain(self) -> bool:
        """Whether the job needs only an insert, so that COPY can store it."""
        return _SPECIAL(self) == _PLAIN or not (
            self.id
            or self.dedupe_key
            or self.dedupe_content
            or self.order_key
            or self.depends_on
            or self.delay
            or self.at
            or self.limit_key
            or self.requires is not None
            or self.prefers is not None
        )

    @property
    def is_copyable(self) -> bool:
        """Whether a plain insert or COPY can store the job. Neither stores traces."""
        return not self.has_options or (self.plain and self.trace is None)

    @property
    def simple(self) -> bool:
        """Whether a plain job takes all its options from its definition."""
        return _STORED(self) == _SIMPLE

    @property
    def attempts(self) -> int | None:
        """Return the number of attempts: explicit, from the retry policy, or None for the definition's."""
        if self.max_attempts is None and self.retry is not None and self.retry.ladder:
            return self.retry.attempts
        return self.max_attempts

    def texts(self, job_id: UUID, payload_limit: int) -> tuple[str | None, ...]:
        """Return the parameters of posthouse.enqueue_one for a plain request."""
        attempts = self.attempts
        return (
            str(job_id),
            self.kind,
            payload_bytes(self.payload, payload_limit).decode(),
            self.tenant,
            self.queue,
            None if self.priority is None else str(_priority(self.priority)),
            None if attempts is None else str(attempts),
            None if self.timeout is None else str(seconds(self.timeout)),
            to_json(self.retry.to_json()).decode() if self.retry else None,
            self.correlation_id,
            self.subject,
            self.source,
            self.source_ref,
            self.created_by,
            None if self.parent_id is None else str(self.parent_id),
        )

    def to_json(self, job_id: UUID, *, verify: bool, payload_limit: int) -> str:
        """Return the JSON object that posthouse.enqueue_many expects."""
        fields = {
            "id": job_id,
            "kind": self.kind,
            "tenant_id": self.tenant,
            "queue": self.queue,
            "priority": None if self.priority is None else _priority(self.priority),
            "scheduled_for": self.at,
            "delay": _seconds(self.delay),
            "dedupe_key": self.dedupe_key,
            "dedupe_content": self.dedupe_content or None,
            "dedupe_window": _seconds(self.dedupe_window),
            "on_duplicate": self.on_duplicate,
            "order_key": self.order_key,
            "depends_on": list(self.depends_on) or None,
            "on_dependency_failure": self.on_dependency_failure,
            "limit_key": self.limit_key,
            "requires": None if self.requires is None else list(self.requires),
            "prefers": None if self.prefers is None else list(self.prefers),
            "max_attempts": self.attempts,
            "timeout_seconds": _seconds(self.timeout),
            "retry": self.retry.to_json() if self.retry else None,
            "correlation_id": self.correlation_id,
            "subject": self.subject,
            "source": self.source,
            "source_ref": self.source_ref,
            "created_by": self.created_by,
            "parent_id": self.parent_id,
            "trace": self.trace,
            "verify": verify or None,
        }
        fields = {name: value for name, value in fields.items() if value is not None}
        payload = encode_payload(self.payload, payload_limit)
        return f'{to_json(fields).decode()[:-1]},"payload":{payload}}}'

    def changed(self, **fields: Any) -> Request:
        options = {**vars(self), **fields}
        options.pop("has_options", None)
        return Request(**options)


_set = object.__setattr__
_OPTIONS = frozenset(RequestOptions.__annotations__)


_SPECIAL = attrgetter(
    "id",
    "dedupe_key",
    "dedupe_content",
    "order_key",
    "depends_on",
    "delay",
    "at",
    "limit_key",
    "requires",
    "prefers",
)
_PLAIN = (None, None, False, None, (), None, None, None, None, None)
"""Default values of the options. One comparison recognises almost all requests of a bulk enqueue."""
_STORED = attrgetter(
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "retry",
    "correlation_id",
    "subject",
    "source",
    "source_ref",
    "created_by",
    "parent_id",
)
_SIMPLE = (None, None, None, None, None, None, None, "manual", None, None, None)


def _seconds(value: Duration | None) -> float | None:
    return None if value is None else seconds(value)


def priority_number(value: int | str) -> int:
    if isinstance(value, int):
        return value
    try:
        return PRIORITY_NAMES[value.lower()]
    except KeyError:
        names = ", ".join(PRIORITY_NAMES)
        raise InvalidJob(f"priority must be an integer or one of {names}, not {value!r}") from None


def _priority(value: int | str) -> int:
    number = value if isinstance(value, int) else priority_number(value)
    if number not in _PRIORITY_RANGE:
        raise InvalidJob(f"priority {number} does not fit in 32 bits")
    return number


def _check_capability(word: str) -> None:
    try:
        check_capability(word)
    except ConfigurationError as error:
        raise InvalidJob(str(error)) from None


def _check_text(name: str, value: str) -> None:
    if 0 < len(value) <= _TEXT_LIMIT and value.isprintable():
        return
    if not value:
        raise InvalidJob(f"{name} is empty; omit it instead")
    if len(value) > _TEXT_LIMIT:
        raise InvalidJob(f"{name} has {len(value)} characters, the limit is {_TEXT_LIMIT}")
    if _UNWANTED.search(value):  # wide spaces are not "printable" but are allowed
        raise InvalidJob(f"{name} contains a control character or a lone surrogate: {value!r}")
