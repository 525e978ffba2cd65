"""The arguments of a handler, validated against its annotations at enqueue and again before it runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from posthouse.errors import ConfigurationError, InvalidPayload
from posthouse.worker.job import Job

RESERVED = frozenset({"connection"})


class Arguments:
    """Converts a payload to keyword arguments.

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

    def read(self, payload: str) -> dict[str, Any]:
        """Return the arguments for a stored payload."""
        if self._adapter is None:
            return {}
        try:
            return self._adapter.validate_json(payload)  # type: ignore[no-any-return]
        except ValidationError as error:
            raise InvalidPayload(_explain(self._kind, error)) from None

    def accepts(self, payload: str) -> bool:
        """Return whether the handler takes this payload."""
        try:
            self.read(payload)
        except InvalidPayload:
            return False
        return True

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise InvalidPayload for arguments that the handler does not accept."""
        if self._adapter is None:
            return
        try:
            self._adapter.validate_python(dict(arguments))
        except ValidationError as error:
            raise InvalidPayload(_explain(self._kind, error)) from None

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


def _explain(kind: str, error: ValidationError) -> str:
    problems = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'payload'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )
    return f"invalid payload for {kind}: {problems}"
