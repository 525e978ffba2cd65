"""One ``{…}`` of a template: the source of its value and its conversion to text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posthouse.errors import InvalidCommand, InvalidPayload

ROOTS = ("tenant_id", "job_id", "attempt", "correlation_id", "subject", "payload")
Values = Mapping[str, Any]

_FORM = re.compile(
    r"(?P<condition>if )?(?P<root>[a-z_]+)(?P<path>(?:\.[A-Za-z0-9_-]+)*)"
    r"(?P<optional>\?)?(?P<spread>\*)?(?P<json>:json)?"
)


@dataclass(frozen=True, slots=True)
class Placeholder:
    root: str
    path: tuple[str, ...] = ()
    optional: bool = False
    spread: bool = False
    as_json: bool = False
    condition: bool = False

    @property
    def name(self) -> str:
        """The name in ``allow_dash`` and in error messages."""
        return ".".join((self.root, *self.path))

    def value(self, values: Values) -> Any:
        """Return the value, or None if it is missing."""
        found: Any = values.get(self.root)
        for key in self.path:
            found = _step(found, key)
        return found

    def required(self, values: Values) -> Any:
        found = self.value(values)
        if found is None:
            raise InvalidPayload(f"{self.name} is required by the command, but missing or null")
        return found

    def text(self, value: Any) -> str:
        """Convert one value to text that is safe to pass to a program."""
        text = json.dumps(value, separators=(",", ":")) if self.as_json else self._plain(value)
        if "\x00" in text:
            raise InvalidPayload(f"{self.name} contains a NUL character, which an argument cannot contain")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidPayload(
                f"{self.name} contains a lone surrogate, which is not valid Unicode"
            ) from None
        return text

    def _plain(self, value: Any) -> str:
        match value:
            case str():
                return value
            case bool() | int() | float():
                return json.dumps(value)
            case None:
                raise InvalidPayload(f"{self.name} contains null, which cannot be an argument")
            case list() | tuple() if not self.spread:
                hint = f"write {{{self.name}*}} for one argument per item, or {{{self.name}:json}}"
                raise InvalidPayload(f"{self.name} is a list, but the command takes one value; {hint}")
            case Mapping() | list() | tuple():
                hint = f"change the definition to {self._with_json()}"
                raise InvalidPayload(f"{self.name} is not a single value; to pass it as JSON, {hint}")
        return str(value)  # a UUID

    def _with_json(self) -> str:
        return f"{{{self.name}{'*' if self.spread else ''}:json}}"


def _step(found: Any, key: str) -> Any:
    if isinstance(found, Mapping):
        return found.get(key)
    if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
        return found[int(key)]
    return None


def parse_placeholder(inside: str) -> Placeholder:
    """Parse the text between the braces."""
    match = _FORM.fullmatch(inside)
    if match is None:
        raise InvalidCommand(
            f"invalid placeholder {{{inside}}}; write {{tenant_id}}, {{payload.name}}, "
            "{payload.name?}, {payload.list*}, {payload.object:json} or {if payload.flag}, "
            "and {{ or }} for a literal brace"
        )
    placeholder = Placeholder(
        root=match["root"],
        path=tuple(match["path"].split(".")[1:]),
        optional=bool(match["optional"]),
        spread=bool(match["spread"]),
        as_json=bool(match["json"]),
        condition=bool(match["condition"]),
    )
    _check(placeholder, inside)
    return placeholder


def _check(placeholder: Placeholder, inside: str) -> None:
    if placeholder.root not in ROOTS:
        raise InvalidCommand(
            f"{{{inside}}}: invalid placeholder: it must start with one of {', '.join(ROOTS)}"
        )
    if placeholder.root != "payload" and placeholder.path:
        raise InvalidCommand(f"{{{inside}}}: {placeholder.root} is a single value and has no fields")
    if placeholder.root == "payload" and not placeholder.path and not placeholder.as_json:
        raise InvalidCommand(
            f"{{{inside}}}: name a field of the payload, such as {{payload.name}}, or write {{payload:json}}"
        )
    if placeholder.condition and (placeholder.optional or placeholder.spread or placeholder.as_json):
        raise InvalidCommand(f"{{{inside}}}: a condition takes neither ?, nor *, nor :json")
