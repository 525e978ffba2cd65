"""Job kinds as defined in code: the handler, its rules, and its arguments.

Arguments are validated against the annotations at enqueue and again before the handler runs.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, Required

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from posthouse.core.limit import Limit
from posthouse.core.outcome import Policy
from posthouse.core.trigger import is_fixed, schedule_of, validate_trigger
from posthouse.errors import ConfigurationError, InvalidPayload
from posthouse.worker.job import Job

RESERVED = frozenset({"connection"})
_ANY_ARGUMENTS: TypeAdapter[Any] = TypeAdapter(Any)


class HandlerArguments:
    """A converter from a payload to keyword arguments.

    A handler that takes only the job accepts any payload. The payloads of a batch handler are validated
    against the type ``takes``, if there is one.
    """

    def __init__(
        self, kind: str, handler: Callable[..., Any], *, batch: bool, takes: type[Any] | None = None
    ) -> None:
        self._kind = kind
        hints = _type_hints(handler)
        parameters = list(inspect.signature(handler).parameters.values())
        self.takes_job = bool(parameters) and _is_job(parameters[0], hints, batch=batch)
        own = parameters[1:] if self.takes_job else parameters
        if batch and (own or not self.takes_job):
            raise ConfigurationError(f"{kind}: a batch handler must take one argument, the list of jobs")
        if takes is not None and not batch:
            raise ConfigurationError(f"{kind}: takes is only for batch handlers; declare parameters instead")
        if takes is not None:
            self._adapter: TypeAdapter[Any] | None = _readable(kind, takes)
        else:
            self._adapter = None if not own and self.takes_job else _adapter(kind, own, hints)
        self.validate: Callable[[Mapping[str, Any]], Any] = (
            self._adapter or _ANY_ARGUMENTS
        ).validator.validate_python
        """Validate arguments. Raises ValidationError if the handler does not accept them."""

    def read(self, payload: str) -> dict[str, Any]:
        """Return the arguments for a stored payload."""
        if self._adapter is None:
            return {}
        try:
            return self._adapter.validate_json(payload)  # type: ignore[no-any-return]
        except ValidationError as error:
            raise self.error(error) from None

    def accepts(self, payload: str) -> bool:
        """Return whether the handler accepts this payload."""
        try:
            self.read(payload)
        except InvalidPayload:
            return False
        return True

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise InvalidPayload for arguments that the handler does not accept."""
        try:
            self.validate(arguments)
        except ValidationError as error:
            raise self.error(error) from None

    def error(self, error: ValidationError) -> InvalidPayload:
        """Return the error for an invalid payload."""
        errors = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'payload'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        return InvalidPayload(f"invalid payload for {self._kind}: {errors}")

    def schema(self) -> dict[str, Any]:
        return {"type": "object"} if self._adapter is None else self._adapter.json_schema()


def _type_hints(handler: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(handler, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"{handler.__qualname__}: cannot resolve the type annotations: {error}"
        ) from error


def _is_job(parameter: inspect.Parameter, hints: Mapping[str, Any], *, batch: bool) -> bool:
    hint = hints.get(parameter.name)
    if hint is None:
        return parameter.name == ("jobs" if batch else "job")
    return hint is Job or (batch and typing.get_args(hint) == (Job,))


def _adapter(
    kind: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]
) -> TypeAdapter[dict[str, Any]]:
    fields: dict[str, Any] = {}
    extra: typing.Literal["allow", "forbid"] = "forbid"
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY}:
            raise ConfigurationError(
                f"{kind}: argument {parameter.name!r} must be usable as a keyword argument"
            )
        if parameter.name in RESERVED:
            raise ConfigurationError(f"{kind}: an argument cannot be named {parameter.name!r}")
        hint = hints.get(parameter.name, Any)
        optional = parameter.default is not parameter.empty
        fields[parameter.name] = NotRequired[hint] if optional else Required[hint]
    make: Any = TypedDict  # the fields are only known at run time
    shape = make(f"{kind} arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra=extra)
    return _readable(kind, shape)


def _readable(kind: str, shape: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(shape)
    except PydanticSchemaGenerationError as error:
        raise ConfigurationError(
            f"{kind}: an argument has a type that JSON cannot represent: {error.message}"
        ) from None


AUTO, PROCESS, COMMAND = "auto", "process", "command"
RUNNERS = (AUTO, PROCESS)
"""``auto`` runs async handlers in the worker's event loop and others in a thread; ``process``
uses a process.
"""
MAX_BATCH = 500
"""Maximum number of jobs in one claim."""


def code_version(definitions: Iterable[JobDefinition]) -> str:
    """Return a digest of the handlers' schemas: equal digests mean equal parameters."""
    schemas = {item.kind: item.arguments.schema() for item in definitions}
    return hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A job kind as defined in code."""

    kind: str
    handler: Callable[..., Any]
    queue: str
    priority: int
    max_attempts: int
    timeout: float | None
    policy: Policy
    batch: int | None
    arguments: HandlerArguments
    is_async: bool
    batches: int | None = None
    """Maximum number of batches that a worker runs at once; None: the number of its slots."""
    runner: str = AUTO
    memory_mb: int | None = None
    keep_steps: bool = True
    keep_progress: bool = True
    limits: tuple[Limit, ...] = ()
    limit_by: str | None = None
    requires: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    followup_queues: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    active: bool = True
    remote: bool = True
    """Whether the job may run on workers without a database connection."""
    triggers: list[dict[str, Any]] = field(default_factory=list)

    def add_trigger(self, type_: str, tenant: str, fields: Mapping[str, Any]) -> None:
        """Add a trigger defined in code. Its number identifies it, so that its rule can be changed later."""
        known = validate_trigger({**fields, "definition_key": self.kind}, type_)
        if type_ == "schedule":
            schedule_of(known)
        if is_fixed(known["payload_template"]):
            self.arguments.check(known["payload_template"])
        number = 1 + sum(other["type"] == type_ for other in self.triggers)
        name = f"{self.kind} {type_} {number}"
        self.triggers.append({"label": name, **known, "type": type_, "tenant_id": tenant, "name": name})

    def code(self) -> dict[str, Any]:
        """Return the definition and its limits, for a client whose database does not have the definition."""
        limits = [limit.announcement(self.kind) for limit in self.limits]
        return {"definition": self.announcement(), "limits": limits}

    def announcement(self) -> dict[str, Any]:
        """Return the definition as stored in the database, for callers that only know the kind's name."""
        return {
            "key": self.kind,
            "description": inspect.getdoc(self.handler) or "",
            "queue": self.queue,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "timeout_seconds": self.timeout,
            "schema": self.arguments.schema(),
            "retry": self.policy.retry.to_json(),
            "limits": {"by": self.limit_by} if self.limit_by else None,
            "requires": list(self.requires),
            "prefers": list(self.prefers),
            "followup_queues": list(self.followup_queues),
            "redact": list(self.redact),
            "active": self.active,
            "keep_steps": self.keep_steps,
            "keep_progress": self.keep_progress,
        }
