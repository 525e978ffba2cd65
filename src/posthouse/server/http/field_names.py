"""The names of fields over HTTP where they differ from the names in Python, SQL and the command line.

Routes return the data classes of ``insights``. The names change here: in responses, event streams and the
OpenAPI document. Payloads, results and other plain JSON stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from pydantic_core import to_json

from posthouse.core.ids import definition_id
from posthouse.definitions import PayloadCheck
from posthouse.insights import AttemptInfo, BulkChange, DefinitionInfo, JobSummary, TriggerInfo

EVERYWHERE = {"kind": "definition_key", "attempt": "attempt_no"}
OF_DEFINITION = {"schema": "arg_schema", "active": "is_active"}
OF_TRIGGER = {"type": "trigger_type", "enabled": "is_enabled"}
_IN: dict[type, dict[str, str]] = {
    AttemptInfo: {"outcome": "status", "error_message": "error_text"},
    DefinitionInfo: OF_DEFINITION,
    PayloadCheck: {"active": "is_active"},
    TriggerInfo: OF_TRIGGER,
}
_ADDED: dict[type, tuple[str, Callable[[Any], Any]]] = {
    JobSummary: ("definition_id", lambda job: definition_id(job.kind)),
    TriggerInfo: ("definition_id", lambda trigger: definition_id(trigger.definition_key)),
    DefinitionInfo: ("id", lambda definition: definition_id(definition.key)),
}
_NAMES_INSIDE: dict[type, dict[str, dict[str, str]]] = {
    DefinitionInfo: {"overridden": OF_DEFINITION, "code_defaults": OF_DEFINITION},
    BulkChange: {"criteria": EVERYWHERE},
}
"""Fields whose value contains names of fields, as the keys of an object or as a list."""


def body(value: Any) -> bytes:
    """Return the JSON of a response."""
    return to_json(wire(value))


def wire(value: Any) -> Any:
    """Return the value with the names of the HTTP API in place of its data classes."""
    if isinstance(value, list):
        return [wire(item) for item in value] if value and is_dataclass(value[0]) else value
    if not is_dataclass(value):
        return value
    cls: type = type(value)
    return _shape(cls)(value)


def renamed_fields(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return fields of a request under the names of Python and SQL."""
    stored = {there: here for here, there in names.items()}
    return {stored.get(name, name): value for name, value in given.items()}


def stored_names(given: Iterable[str], names: dict[str, str]) -> list[str]:
    stored = {there: here for here, there in names.items()}
    return [stored.get(name, name) for name in given]


@lru_cache(maxsize=1000)
def _shape(cls: type) -> Callable[[Any], dict[str, Any]]:
    own = [item.name for item in fields(cls)]
    names = [_names(cls).get(name, name) for name in own]
    inside = _of(cls, _NAMES_INSIDE)
    added = [_ADDED[base] for base in cls.__mro__ if base in _ADDED]
    get = attrgetter(*own) if len(own) > 1 else lambda value: (getattr(value, own[0]),)

    def shaped(value: Any) -> dict[str, Any]:
        renamed = {name: wire(part) for name, part in zip(names, get(value), strict=True)}
        for name, words in inside.items():
            renamed[name] = _rename_inside(renamed[name], words)
        for name, of in added:
            renamed[name] = of(value)
        return renamed

    return shaped


def _names(cls: type) -> dict[str, str]:
    return {**EVERYWHERE, **_of(cls, _IN)}


def _of(cls: type, table: dict[type, dict[str, Any]]) -> dict[str, Any]:
    return {name: value for base in cls.__mro__ for name, value in table.get(base, {}).items()}


def _rename_inside(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {words.get(name, name): item for name, item in value.items()}
    return sorted(words.get(name, name) for name in value)


def rename_schemas(schemas: dict[str, Any]) -> None:
    """Rename the properties of the schemas of the OpenAPI document, and add those that are derived."""
    by_name = {cls.__name__: cls for base in (*_IN, *_ADDED) for cls in (base, *_all_subclasses(base))}
    for name, schema in schemas.items():
        cls = by_name.get(name)
        names = EVERYWHERE if cls is None else _names(cls)
        if not names.keys() & schema.get("properties", {}).keys():
            continue
        schema["properties"] = {
            names.get(key, key): _titled(names.get(key, key), details)
            for key, details in schema["properties"].items()
        }
        schema["required"] = [names.get(key, key) for key in schema.get("required", [])]
        for added, _ in (_ADDED[base] for base in getattr(cls, "__mro__", ()) if base in _ADDED):
            schema["properties"][added] = {"type": "string", "format": "uuid", "title": _title(added)}
            schema["required"].append(added)


def _all_subclasses(cls: type) -> list[type]:
    children: list[type] = cls.__subclasses__()
    return [found for child in children for found in (child, *_all_subclasses(child))]


def _titled(name: str, details: dict[str, Any]) -> dict[str, Any]:
    return {**details, "title": _title(name)} if "title" in details else details


def _title(name: str) -> str:
    return name.replace("_", " ").title()
