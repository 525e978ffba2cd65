"""The JSON Schema of a payload: compiled once, quick to check, harmless whoever wrote it.

Nothing is ever fetched for a reference, and patterns run on an engine without backtracking: those that would
need it (look-around, back-references) are refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from posthouse.errors import InvalidDefinition

MOST_PROBLEMS = 10
MOST_BYTES = 65_536
_LONGEST_PROBLEM = 300
_PLAIN_KEY = re.compile(r"[\w-]+\Z")
_PATTERN_BYTES = 1_000_000
_ANYTHING: tuple[dict[str, Any], ...] = ({}, {"type": "object"})


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a value, and where in it: ``items[0].name``; nowhere: it is about all of it."""

    path: str
    message: str

    def within(self, name: str) -> str:
        """The same about something with a name: ``payload.user_id: "x" is not of type "integer"``."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return f"{name}{dot}{self.path}: {self.message}"


class PayloadSchema:
    def __init__(self, schema: dict[str, Any]) -> None:
        import jsonschema_rs  # noqa: PLC0415 - takes 45 ms, and most callers check by their handlers' types

        patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
        try:
            self._validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=patterns)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise InvalidDefinition(f"this is not a valid JSON Schema: {_shortened(error.message)}") from None
        except ValueError as error:
            raise InvalidDefinition(f"this is not a valid JSON Schema: {error}") from None

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
        """The same as texts."""
        return [fault.within(name) for fault in self.faults(value)]


@lru_cache(maxsize=512)
def compiled(text: str) -> PayloadSchema | None:
    """The schema in this JSON text; None if every payload is fine by it."""
    schema = json.loads(text)
    if schema in _ANYTHING:
        return None
    if len(text) > MOST_BYTES:
        raise InvalidDefinition(f"a schema has at most {MOST_BYTES:,} bytes, this one has {len(text):,}")
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
    """Long values stand at the start of a message, what is wrong with them at its end."""
    half = _LONGEST_PROBLEM // 2
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:half]} … {text[-half:]}"
