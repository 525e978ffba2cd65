"""The formats of JSON Schema that are checked here instead of by the schema library.

The library knows ``uuid`` and ``duration`` only in newer drafts, and its strict reading of ``date-time``,
``time`` and ``duration`` refuses values that handlers accept and that Pydantic itself writes: times without
an offset, fractions of a second, negative durations. The library checks all other formats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time
from functools import lru_cache
from operator import mul
from typing import Any

from pydantic_core import from_json

from posthouse.core.payload import values_by_depth, values_of
from posthouse.core.redaction.redactor import SchemaIndex
from posthouse.errors import InvalidDefinition

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"[+-]?P(?=[\dT])(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.ASCII
)


def _is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def _is_date_time(value: str) -> bool:
    return _DATE_TIME.fullmatch(value) is not None and _is_read_by(datetime.fromisoformat, value)


def _is_time(value: str) -> bool:
    return _TIME.fullmatch(value) is not None and _is_read_by(time.fromisoformat, value)


def _is_duration(value: str) -> bool:
    return _DURATION.fullmatch(value) is not None


def _is_read_by(reader: Callable[[str], object], value: str) -> bool:
    try:
        reader(value)
    except ValueError:
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "uuid": _is_uuid,
    "date-time": _is_date_time,
    "time": _is_time,
    "duration": _is_duration,
}


MAX_SUBSCHEMAS = 2_000
MAX_DEPTH = 100
MAX_PER_VALUE = 10_000
"""Maximum number of evaluations of subschemas for one value of a payload."""
MAX_EVALUATIONS = 1_000_000
"""Maximum number of evaluations for a whole payload. They take about 0.1 s."""
CHEAP_PER_VALUE = 10
"""Up to this number of evaluations per value, the depth of a payload is not measured."""
MAX_PAYLOAD_DEPTH = 200
SHALLOW = 20
MAX_STEPS = 100_000
_ENUM_STEP = 100
_SAME = ("allOf", "anyOf", "oneOf")
_SAME_SINGLE = ("not", "if", "then", "else")
_SAME_NAMED = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaCost:
    """The cost of a schema: its subschemas, and how many of them are evaluated for a value at each depth."""

    def __init__(self, schema: dict[str, Any]) -> None:
        _reject_deep(schema)
        self._index = SchemaIndex(schema)
        self._same: dict[int, list[dict[str, Any]]] = {}
        self._order = self._sort(self._find_reachable(schema))
        self._per_value = self._count_evaluations(id(schema))
        if self._per_value[-1] > MAX_PER_VALUE and not self._is_recursive():
            raise InvalidDefinition(
                f"the schema is too expensive: one value may need more than {MAX_PER_VALUE:,} evaluations; "
                "use fewer alternatives (oneOf, anyOf) that refer to each other"
            )

    def of(self, payload: bytes) -> tuple[int, int]:
        """Return the maximum number of evaluations for one value of this payload, and for all of it."""
        last = len(self._per_value) - 1
        if self._per_value[last] <= CHEAP_PER_VALUE:
            return self._per_value[last], self._per_value[last] * values_of(payload)
        levels = values_by_depth(payload)
        counts = [self._per_value[min(depth, last)] for depth in range(len(levels))]
        return counts[-1], sum(map(mul, levels, counts))

    def _find_reachable(self, schema: dict[str, Any]) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        left: list[Any] = [schema]
        while left:
            node = left.pop()
            if not isinstance(node, dict) or id(node) in found:
                continue
            found[id(node)] = node
            self._same[id(node)] = same = self._applied_with(node)
            left += [*same, *_children(node)]
            if len(found) > MAX_SUBSCHEMAS:
                raise InvalidDefinition(f"a schema has at most {MAX_SUBSCHEMAS:,} subschemas")
        return found

    def _applied_with(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the subschemas that are applied to the same value as this one."""
        found: list[Any] = [self._index.resolved(node.get(name)) for name in _REFERENCES]
        for name in _SAME:
            found += node[name] if isinstance(node.get(name), list) else ()
        found += [node.get(name) for name in _SAME_SINGLE]
        for name in _SAME_NAMED:
            found += node[name].values() if isinstance(node.get(name), dict) else ()
        return [item for item in found if isinstance(item, dict)]

    def _sort(self, nodes: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the subschemas, each after the subschemas that it applies to the same value."""
        order, _ = _postorder(nodes.values(), lambda node: self._same[id(node)])
        return order

    def _is_recursive(self) -> bool:
        """Return whether a subschema contains itself. Only the payload then limits the depth."""
        _, has_cycle = _postorder(self._order, lambda node: [*self._same[id(node)], *_children(node)])
        return has_cycle

    def _count_evaluations(self, root: int) -> list[int]:
        """Return the number of evaluations of one value for each depth of a payload.

        The list ends at the depth from which the number stays the same.
        """
        inner: dict[int, int] = {}
        found: list[int] = []
        for level in range(max(SHALLOW, min(MAX_PAYLOAD_DEPTH + 1, MAX_STEPS // len(self._order)))):
            outer: dict[int, int] = {}
            for node in self._order:
                own = _count_below(node, inner) if level else 1 + len(node.get("enum") or ()) // _ENUM_STEP
                again = 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else 1
                total = own + again * sum(outer.get(id(other), 0) for other in self._same[id(node)])
                outer[id(node)] = min(total, MAX_EVALUATIONS + 1)
            found.append(max(outer[root], *found[-1:], 0))
            if outer == inner or found[-1] > MAX_EVALUATIONS:
                return found
            inner = outer
        return [*found, MAX_EVALUATIONS + 1]


def _postorder(
    nodes: Iterable[dict[str, Any]], following: Callable[[dict[str, Any]], list[Any]]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the nodes, each after those that follow it, and whether there is a cycle.

    A cycle costs nothing: the validator applies a schema that refers to itself only once to the same value.
    """
    has_cycle = False
    is_done: dict[int, bool] = {}
    order: list[dict[str, Any]] = []
    left = [(node, False) for node in nodes]
    while left:
        node, is_last = left.pop()
        if is_last:
            is_done[id(node)] = True
            order.append(node)
        elif id(node) not in is_done:
            is_done[id(node)] = False
            left.append((node, True))
            for other in following(node):
                if isinstance(other, dict):
                    has_cycle = has_cycle or is_done.get(id(other)) is False
                    left.append((other, False))
    return order, has_cycle


def _children(node: dict[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to the items of an array or the fields of an object."""
    for name in ("properties", "patternProperties"):
        if isinstance(node.get(name), dict):
            yield from node[name].values()
    for name in ("items", "prefixItems"):
        if isinstance(node.get(name), list):
            yield from node[name]
    for name in _ONE_CHILD:
        yield node.get(name)


_ONE_CHILD = (
    "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems",
    "unevaluatedItems", "contains",
)  # fmt: skip


def _count_below(node: dict[str, Any], counts: dict[int, int]) -> int:
    """Return how often this subschema evaluates an item of the array or a field of the object."""

    def most(found: Any) -> int:
        return max((counts.get(id(item), 0) for item in found), default=0)

    properties, patterns = node.get("properties"), node.get("patternProperties")
    fields = most(properties.values()) if isinstance(properties, dict) else 0
    if isinstance(patterns, dict):
        fields += sum(counts.get(id(item), 0) for item in patterns.values())
    fields += counts.get(id(node.get("additionalProperties")), 0)
    fields += counts.get(id(node.get("unevaluatedProperties")), 0)
    fields += counts.get(id(node.get("propertyNames")), 0)
    items = 0
    for name in ("items", "prefixItems"):
        found = node.get(name)
        items += most(found) if isinstance(found, list) else counts.get(id(found), 0)
    items += sum(counts.get(id(node.get(name)), 0) for name in _ONE_CHILD[4:])
    return max(fields, items)


def _reject_deep(schema: Any) -> None:
    left = [(schema, 1)]
    while left:
        item, depth = left.pop()
        if depth > MAX_DEPTH:
            raise InvalidDefinition(f"a schema is nested at most {MAX_DEPTH} levels deep")
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        left.extend((each, depth + 1) for each in inner if isinstance(each, dict | list))


MAX_ERRORS = 10
MAX_BYTES = 65_536
_MAX_MESSAGE_CHARS = 300
_PLAIN_KEY = re.compile(r"[\w-]+\Z")
_PATTERN_BYTES = 1_000_000
MAX_EXPLAINED = 5_000
MAX_ALTERNATIVES = 100
_TOO_EXPENSIVE = (
    f"its validation may need more than {MAX_EVALUATIONS:,} evaluations of the schema; send a smaller or "
    "less nested payload, or use fewer alternatives (oneOf, anyOf) in the schema"
)
_UNEXPLAINED = "it does not match the schema; there are too many alternatives to say which one"
_ANYTHING: tuple[dict[str, Any], ...] = ({}, {"type": "object"})


@dataclass(frozen=True, slots=True)
class FieldError:
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
            raise InvalidDefinition(f"invalid JSON Schema: {_shorten(error.message)}") from None
        except ValueError as error:
            raise InvalidDefinition(f"invalid JSON Schema: {error}") from None
        self._cost = SchemaCost(schema)

    def errors_in(self, payload: str) -> list[FieldError]:
        """Return the errors of a payload in this JSON text, unless finding them all is too expensive.

        An error takes 0.1 ms or more, and the error of a oneOf contains those of all its alternatives.
        """
        text = payload.encode()
        each, total = self._cost.of(text)
        if total > MAX_EVALUATIONS:
            return [FieldError("", _TOO_EXPENSIVE)]
        value = from_json(text)
        if self.accepts(value):
            return []
        if total <= MAX_EXPLAINED:
            return self.errors(value)
        return [self.first_error(value) if each <= MAX_ALTERNATIVES else FieldError("", _UNEXPLAINED)]

    def first_error(self, value: Any) -> FieldError:
        """Return only the first error: each error holds copies of the values and alternatives in question."""
        try:
            self._validator.validate(value)
        except ValueError as error:  # jsonschema_rs.ValidationError
            path: list[str | int] = getattr(error, "instance_path", [])
            return FieldError(_format_path(path), _shorten(getattr(error, "message", str(error))))
        return FieldError("", _UNEXPLAINED)

    def accepts(self, value: Any) -> bool:
        return self._validator.is_valid(value)

    def errors(self, value: Any) -> list[FieldError]:
        found = []
        for error in self._validator.iter_errors(value):
            found.append(FieldError(_format_path(error.instance_path), _shorten(error.message)))
            if len(found) == MAX_ERRORS:
                break
        return found

    def error_messages(self, value: Any, name: str = "payload") -> list[str]:
        """Validate a value and return the errors as text."""
        return [error.within(name) for error in self.errors(value)]


@lru_cache(maxsize=512)
def compile_schema(text: str) -> PayloadSchema | None:
    """Return the schema in this JSON text, or None if it accepts every payload."""
    schema = json.loads(text)
    if schema in _ANYTHING:
        return None
    if len(text) > MAX_BYTES:
        raise InvalidDefinition(f"the schema has {len(text):,} bytes, the limit is {MAX_BYTES:,}")
    return PayloadSchema(schema)


def _format_path(path: list[str | int]) -> str:
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += f".{part}" if _PLAIN_KEY.match(part) else f"[{json.dumps(part)}]"
    return name.removeprefix(".")


def _shorten(text: str) -> str:
    """Shorten a message in the middle, because it starts with the value and ends with the error."""
    half = _MAX_MESSAGE_CHARS // 2
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:half]} … {text[-half:]}"
