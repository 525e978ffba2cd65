"""What the database says of a kind of job now: the rules that clients and workers keep to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pydantic_core import from_json

from posthouse.core.redaction import Redactor, Secrets, redactor_for
from posthouse.core.request import Request
from posthouse.core.retry import Retry
from posthouse.core.schema import Fault, compiled
from posthouse.errors import InvalidDefinition, InvalidPayload


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """The fields of sql/definition_rules.sql. ``overrides`` is what an operator set over the code's word."""

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

    @classmethod
    def from_text(cls, text: str) -> KindRules:
        values = {name: value for name, value in json.loads(text).items() if name in _NAMES}
        return cls(**{**values, "redact": tuple(values["redact"])})

    @property
    def allow_all(self) -> bool:
        """Whether there is nothing about any request to check or to change."""
        return not self.overrides and self.schema in _ANY_PAYLOAD

    @property
    def redactor(self) -> Redactor:
        return redactor_for(self.schema, self.redact)

    @property
    def operators_retry(self) -> Retry | None:
        """The policy that an operator set; without one the handler's own counts."""
        chosen = self.overrides.get("retry")
        return Retry.from_json(chosen) if chosen else None

    @property
    def operators_schema(self) -> bool:
        """Whether payloads must fit more than what their handler takes."""
        return "schema" in self.overrides

    def gives_way(self, request: Request) -> Request:
        """A request whose implied options give way to those that an operator set."""
        yielding = [name for name in request.implied or () if name in self.overrides]
        return request.changed(**dict.fromkeys(yielding)) if yielding else request

    def faults(self, payload: str) -> list[Fault]:
        """What is wrong with a payload, secrets masked."""
        schema = compiled_or_raise(self)
        if schema is None:
            return []
        value = from_json(payload)
        if schema.accepts(value):
            return []
        secrets = self.redactor.secrets(value)
        return [self._masked(fault, secrets) for fault in schema.faults(value)]

    def _masked(self, fault: Fault, secrets: Secrets) -> Fault:
        """By the whole text: the name of a field says whether what follows it is a secret."""
        text = self.redactor.text(fault.within("payload"), secrets)
        place = Fault(fault.path, "").within("payload")
        return Fault(fault.path, text.removeprefix(place)) if text.startswith(place) else Fault("", text)

    def problems(self, payload: str) -> list[str]:
        """The same as texts."""
        return [fault.within("payload") for fault in self.faults(payload)]

    def check(self, payload: str) -> None:
        found = self.problems(payload)
        if found:
            raise self.refusal(found)

    def refusal(self, problems: Sequence[str]) -> InvalidPayload:
        return InvalidPayload(f"{self.key} does not take this payload: {'; '.join(problems)}")


def compiled_or_raise(rules: KindRules) -> Any:
    """Its schema. One stored by hand may be none: that is the definition's fault, not the payload's."""
    try:
        return compiled(rules.schema)
    except InvalidDefinition as error:
        raise InvalidDefinition(f"the definition of {rules.key} is unusable: {error}") from None


_ANY_PAYLOAD = {"{}", '{"type": "object"}'}  # as jsonb writes them
_NAMES = {item.name for item in fields(KindRules)}
