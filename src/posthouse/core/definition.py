"""The stored definition of a job kind: what clients and workers apply, and the validation of payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from posthouse.core.command.spec import CommandSpec
from posthouse.core.command.template import TemplateValues
from posthouse.core.redaction import Redactor, Secrets, redactor_for
from posthouse.core.redaction.redactor import NO_SECRETS
from posthouse.core.request import Request
from posthouse.core.retry import Retry
from posthouse.core.schema import FieldError, compile_schema
from posthouse.errors import InvalidCommand, InvalidDefinition, InvalidPayload


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinition:
    """The columns of the statement definitions_by_kind.

    ``overrides`` holds the values that an operator set in place of those in the code.
    """

    key: str
    active: bool = True
    schema: str = "{}"
    redact: tuple[str, ...] = ()
    overrides: Mapping[str, Any]
    runner: str = "handler"
    command: Mapping[str, Any] | None = None
    queue: str = "default"
    timeout_seconds: float | None = None
    retry: Mapping[str, Any] | None = None
    announced_schema: str | None = None
    """The schema of the code that was announced last, without overrides of an operator."""

    @classmethod
    def from_text(cls, text: str) -> StoredDefinition:
        values = {name: value for name, value in json.loads(text).items() if name in _NAMES}
        return cls(**{**values, "redact": tuple(values["redact"])})

    @property
    def accepts_everything(self) -> bool:
        """Whether there is nothing to validate or override in any request."""
        return not self.overrides and self.schema in _ANY_PAYLOAD

    @property
    def redactor(self) -> Redactor:
        return redactor_for(self.schema, self.redact)

    @property
    def retry_override(self) -> Retry | None:
        """The retry policy that an operator set, or None."""
        policy = self.overrides.get("retry")
        return Retry.from_json(policy) if policy else None

    @property
    def has_schema_override(self) -> bool:
        """Whether an operator set a schema in addition to the handler's type annotations."""
        return "schema" in self.overrides

    def apply_overrides(self, request: Request) -> Request:
        """Return the request with the operator's overrides in place of its implied options."""
        overridden = [name for name in request.implied or () if name in self.overrides]
        return request.changed(**dict.fromkeys(overridden)) if overridden else request

    def schema_errors(self, payload: str) -> list[FieldError]:
        """Validate a payload and return the errors, with secrets masked."""
        schema = _schema_of(self)
        if schema is None:
            return []
        found: list[FieldError] = schema.errors_in(payload)
        secrets = self.redactor.secrets(from_json(payload)) if found else NO_SECRETS
        return [self._masked(error, secrets) for error in found]

    def _masked(self, error: FieldError, secrets: Secrets) -> FieldError:
        """Mask the whole message, because the field name tells whether the value after it is a secret."""
        text = self.redactor.text(error.within("payload"), secrets)
        prefix = FieldError(error.path, "").within("payload")
        return (
            FieldError(error.path, text.removeprefix(prefix))
            if text.startswith(prefix)
            else FieldError("", text)
        )

    def schema_error_messages(self, payload: str) -> list[str]:
        """Validate a payload and return the errors as text."""
        return [error.within("payload") for error in self.schema_errors(payload)]

    def validate_payload(self, payload: str) -> None:
        found = self.schema_error_messages(payload)
        if found:
            raise self.rejection(found)

    def rejection(self, messages: Sequence[str]) -> InvalidPayload:
        return InvalidPayload(f"invalid payload for {self.key}: {'; '.join(messages)}")


def is_own(kind: str) -> bool:
    """Return whether a kind is one of Posthouse's own, which have no definition."""
    return kind.startswith("posthouse.")


def _schema_of(rules: StoredDefinition) -> Any:
    """Return the compiled schema. Raises InvalidDefinition if the stored schema is invalid."""
    try:
        return compile_schema(rules.schema)
    except InvalidDefinition as error:
        raise InvalidDefinition(f"the definition of {rules.key} is invalid: {error}") from None


_ANY_PAYLOAD = {"{}", '{"type": "object"}'}  # as jsonb prints them
_NAMES = {item.name for item in fields(StoredDefinition)}


def payload_errors(rules: StoredDefinition, payload: str, values: TemplateValues) -> list[FieldError]:
    """Return the schema errors; if there are none, the errors of rendering the command's arguments."""
    return rules.schema_errors(payload) or [
        FieldError("", text) for text in _command_errors(rules, payload, values)
    ]


def payload_error_messages(rules: StoredDefinition, payload: str, values: TemplateValues) -> list[str]:
    """Return the errors as text."""
    return rules.schema_error_messages(payload) or _command_errors(rules, payload, values)


def _command_errors(rules: StoredDefinition, payload: str, values: TemplateValues) -> list[str]:
    if rules.command is None:
        return []
    value = json.loads(payload)
    try:
        render_argv(rules, value, values)
    except InvalidPayload as error:
        return [rules.redactor.text(str(error), rules.redactor.secrets(value))]
    return []


def render_argv(rules: StoredDefinition, payload: Any, values: TemplateValues) -> list[str]:
    """Return the exact arguments that would run. Raises InvalidPayload."""
    return parse_command(rules).template.render(values.with_payload(payload))


def parse_command(rules: StoredDefinition) -> CommandSpec:
    """Return the command of a definition. Raises InvalidDefinition if the stored command is invalid."""
    if rules.command is None:
        raise InvalidDefinition(f"{rules.key} is not a command: it runs in a handler")
    try:
        return _parse_spec(_text(rules.command))
    except InvalidCommand as error:
        raise InvalidDefinition(f"the definition of {rules.key} is invalid: {error}") from None


def _text(command: Mapping[str, Any]) -> str:
    return json.dumps(command, sort_keys=True)


@lru_cache(maxsize=512)
def _parse_spec(text: str) -> CommandSpec:
    return CommandSpec.from_json(json.loads(text))
