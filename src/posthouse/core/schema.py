"""JSON Schemas of payloads, compiled once and safe to run when untrusted.

References are never fetched, and patterns run on an engine without backtracking: those that would need it
(look-around, back-references) are rejected. ``format`` is asserted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from posthouse.core.formats import FORMATS
from posthouse.core.schema_cost import MOST_EVALUATIONS, SchemaCost
from posthouse.errors import InvalidDefinition

MOST_PROBLEMS = 10
MOST_BYTES = 65_536
_LONGEST_PROBLEM = 300
_PLAIN_KEY = re.compile(r"[\w-]+\Z")
_PATTERN_BYTES = 1_000_000
MOST_EXPLAINED = 5_000
MOST_ALTERNATIVES = 100
_TOO_EXPENSIVE = (
    f"its validation may need more than {MOST_EVALUATIONS:,} evaluations of the schema; send a smaller or "
    "less nested payload, or use fewer alternatives (oneOf, anyOf) in the schema"
)
_UNEXPLAINED = "it does not match the schema; there are too many alternatives to say which one"
_ANYTHING: tuple[dict[str, Any], ...] = ({}, {"type": "object"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A validation error and its path: ``items[0].name``; empty for the whole value."""

    path: str
    message: str

    def within(self, name: str) -> str:
        """Return the message for a named value: ``payload.user_id: "x" is not of type "integer"``."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return f"{name}{dot}{self.path}: {self.message}"


class PayloadSchema:
    def __init__(self, schema: dict[str, Any]) -> None:
        import jsonschema_rs  # noqa: PLC0415 - takes 45 ms, and most callers validate by type annotations

        patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, offline=True, pattern_options=patterns, validate_formats=True, formats=FORMATS
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise InvalidDefinition(f"invalid JSON Schema: {_shortened(error.message)}") from None
        except ValueError as error:
            raise InvalidDefinition(f"invalid JSON Schema: {error}") from None
        self._cost = SchemaCost(schema)

    def faults_of(self, payload: str) -> list[Fault]:
        """Return what is wrong with a payload in this JSON text, as far as finding it out is affordable.

        An error takes 0.1 ms or more, and the one of a oneOf holds those of all its alternatives.
        """
        text = payload.encode()
        each, total = self._cost.of(text)
        if total > MOST_EVALUATIONS:
            return [Fault("", _TOO_EXPENSIVE)]
        value = from_json(text)
        if self.accepts(value):
            return []
        if total <= MOST_EXPLAINED:
            return self.faults(value)
        return [self.first_fault(value) if each <= MOST_ALTERNATIVES else Fault("", _UNEXPLAINED)]

    def first_fault(self, value: Any) -> Fault:
        """Return the first error only: each one holds copies of the values and alternatives in question."""
        try:
            self._validator.validate(value)
        except ValueError as error:  # jsonschema_rs.ValidationError
            path: list[str | int] = getattr(error, "instance_path", [])
            return Fault(_place(path), _shortened(getattr(error, "message", str(error))))
        return Fault("", _UNEXPLAINED)

    def accepts(self, value: Any) -> bool:
        return self._validator.is_valid(value)

    def faults(self, value: Any) -> list[Fault]:
        found = []
        for error in self._validator.iter_errors(value):
            found.append(Fault(_place(error.instance_path), _shortened(error.message)))
            if len(found) == MOST_PROBLEMS:
                break
        return found

    def problems(self, value: Any, name: str = "payload") -> list[str]:
        """Validate a value and return the errors as text."""
        return [fault.within(name) for fault in self.faults(value)]


@lru_cache(maxsize=512)
def compiled(text: str) -> PayloadSchema | None:
    """Return the schema in this JSON text, or None if it accepts every payload."""
    schema = json.loads(text)
    if schema in _ANYTHING:
        return None
    if len(text) > MOST_BYTES:
        raise InvalidDefinition(f"the schema has {len(text):,} bytes, the limit is {MOST_BYTES:,}")
    return PayloadSchema(schema)


def _place(path: list[str | int]) -> str:
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += f".{part}" if _PLAIN_KEY.match(part) else f"[{json.dumps(part)}]"
    return name.removeprefix(".")


def _shortened(text: str) -> str:
    """Shorten a message in the middle: it starts with the value and ends with the error."""
    half = _LONGEST_PROBLEM // 2
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:half]} … {text[-half:]}"
