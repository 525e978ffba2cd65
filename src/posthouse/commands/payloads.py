"""Validate a payload against its kind before a worker runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from posthouse.commands.placeholder import Values
from posthouse.commands.spec import CommandSpec
from posthouse.core.kind import KindRules
from posthouse.core.schema import Fault
from posthouse.errors import InvalidCommand, InvalidDefinition, InvalidPayload

_NOT_YET = {"job_id": "00000000-0000-0000-0000-000000000000", "attempt": 1}
"""Placeholder values for fields that a job gets when it is stored or runs."""


def faults_with(rules: KindRules, payload: str, about: Values) -> list[Fault]:
    """Return the schema errors; if there are none, the errors of rendering the command's arguments.

    ``about`` is the job's tenant_id, correlation_id and subject.
    """
    return rules.faults(payload) or [Fault("", text) for text in _unusable(rules, payload, about)]


def problems_with(rules: KindRules, payload: str, about: Values) -> list[str]:
    """Return the errors as text."""
    return rules.problems(payload) or _unusable(rules, payload, about)


def _unusable(rules: KindRules, payload: str, about: Values) -> list[str]:
    if rules.command is None:
        return []
    value = json.loads(payload)
    try:
        arguments(rules, value, about)
    except InvalidPayload as error:
        return [rules.redactor.text(str(error), rules.redactor.secrets(value))]
    return []


def arguments(rules: KindRules, payload: Any, about: Values) -> list[str]:
    """Return the exact arguments that would run. Raises InvalidPayload."""
    return spec_of(rules).template.render({**_NOT_YET, **about, "payload": payload})


def spec_of(rules: KindRules) -> CommandSpec:
    """Return the command of a definition. Raises InvalidDefinition if the stored command is invalid."""
    if rules.command is None:
        raise InvalidDefinition(f"{rules.key} is not a command: it runs in a handler")
    try:
        return _parsed(_text(rules.command))
    except InvalidCommand as error:
        raise InvalidDefinition(f"the definition of {rules.key} is invalid: {error}") from None


def _text(command: Mapping[str, Any]) -> str:
    return json.dumps(command, sort_keys=True)


@lru_cache(maxsize=512)
def _parsed(text: str) -> CommandSpec:
    return CommandSpec.from_json(json.loads(text))
