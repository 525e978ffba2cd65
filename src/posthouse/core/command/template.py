"""Argument lists from templates, validated once when the definition is created. No shell is involved.

A template is a list. A string makes one argument (or one per item if it expands a list). A nested list is a
*group*, which is omitted as a whole if one of its optional values is missing or its condition is false.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from posixpath import basename
from typing import Any, TypeAlias

from posthouse.errors import InvalidCommand, InvalidPayload

# Program name -> letters of the options whose argument is code.
_CODE_OPTIONS = (
    (re.compile(r"(?:ba|da|z|k|mk|a|fi|c|tc|r?ba)?sh"), "c"),
    (re.compile(r"(?:python|pypy)[0-9.]*w?"), "c"),
    (re.compile(r"(?:perl|ruby|lua|node|nodejs|bun|deno|osascript|Rscript)[0-9.]*"), "eEp"),
    (re.compile(r"php[0-9.]*"), "r"),
    (re.compile(r"su|script|watch"), "c"),
)
_LONG = ("--eval", "--command", "--print", "--run")


def reject_values_in_code(elements: Iterable[tuple[str, bool]]) -> None:
    """Reject placeholders in code. Each element is its source and whether the source has placeholders."""
    letters = ""
    code_next = False
    for source, has_values in elements:
        if has_values and (code_next or (letters and _glued(source))):
            raise InvalidCommand(
                f"{source!r} is code for an interpreter, and a value in it would be executed; "
                'pass it as an argument, for example ["sh", "-c", "echo \\"$1\\"", "sh", "{payload.name}"]'
            )
        code_next = not has_values and bool(letters) and _takes_code(source, letters)
        letters = letters or _letters_of(source)


def _letters_of(source: str) -> str:
    name = basename(source)
    return next((letters for pattern, letters in _CODE_OPTIONS if pattern.fullmatch(name)), "")


def _takes_code(option: str, letters: str) -> bool:
    if option.startswith("--"):
        return option in _LONG
    return option.startswith("-") and any(letter in option for letter in letters)


def _glued(source: str) -> bool:
    return source.startswith(tuple(f"{name}=" for name in _LONG))


Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateValues:
    """The values that a template can use besides the payload.

    The defaults stand for the values that a job gets when it is stored or runs.
    """

    tenant_id: str
    job_id: str = "00000000-0000-0000-0000-000000000000"
    attempt: int = 1
    correlation_id: str | None = ""
    subject: str | None = ""

    def with_payload(self, payload: Any) -> Values:
        return {**asdict(self), "payload": payload}


ROOTS = (*(item.name for item in fields(TemplateValues)), "payload")

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


ArgvTemplate: TypeAlias = Sequence[str | Sequence[str]]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


@dataclass(frozen=True, slots=True)
class Element:
    """One string of a template: literal text and placeholders."""

    source: str
    parts: tuple[str | Placeholder, ...]
    bold: frozenset[str] = frozenset()  # placeholders whose value may start with a dash

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @property
    def condition(self) -> Placeholder | None:
        first = self.placeholders[:1]
        return first[0] if first and first[0].condition else None

    @property
    def spread(self) -> Placeholder | None:
        return next((part for part in self.placeholders if part.spread), None)

    @property
    def literal(self) -> str | None:
        return None if self.placeholders else "".join(map(str, self.parts))

    def render(self, values: Values) -> list[str]:
        if self.condition:
            return []
        spread = self.spread
        if spread is None:
            return [self._argument(values, None)]
        items = spread.required(values)
        if not isinstance(items, list | tuple):
            raise InvalidPayload(f"{spread.name} must be a list, not {type(items).__name__}")
        return [self._argument(values, item) for item in items]

    def _argument(self, values: Values, item: Any) -> str:
        texts = [
            part if isinstance(part, str) else part.text(item if part.spread else part.required(values))
            for part in self.parts
        ]
        argument = "".join(texts)
        if argument.startswith("-"):
            self._reject_option(texts)
        return argument

    def _reject_option(self, texts: list[str]) -> None:
        """Reject a value at the start of an argument that would be parsed as an option."""
        source = next(part for part, text in zip(self.parts, texts, strict=True) if text)
        if isinstance(source, Placeholder) and source.name not in self.bold:
            raise InvalidPayload(
                f"{source.name} starts with '-' and could be read as an option; "
                f"to allow it, add {source.name!r} to allow_dash of the definition"
            )


@dataclass(frozen=True, slots=True)
class Group:
    elements: tuple[Element, ...]

    def render(self, values: Values) -> list[str]:
        if not all(_wanted(placeholder, values) for placeholder in self._placeholders()):
            return []
        return [argument for element in self.elements for argument in element.render(values)]

    def _placeholders(self) -> Iterator[Placeholder]:
        for element in self.elements:
            yield from element.placeholders


def _wanted(placeholder: Placeholder, values: Values) -> bool:
    value = placeholder.value(values)
    if placeholder.condition:
        if value is not None and not isinstance(value, bool):
            raise InvalidPayload(f"{placeholder.name} must be true or false, not {type(value).__name__}")
        return value is True
    if placeholder.spread and isinstance(value, list) and not value:
        return False
    return value is not None or not placeholder.optional


@dataclass(frozen=True, slots=True)
class Template:
    """A validated template. ``render`` returns the argument list for the values of a job."""

    items: tuple[Element | Group, ...]

    def render(self, values: Values) -> list[str]:
        """Return the arguments. Raises InvalidPayload if a value is missing or unsafe."""
        return [argument for item in self.items for argument in item.render(values)]

    @property
    def elements(self) -> tuple[Element, ...]:
        return tuple(_flat(self.items))


def parse_template(argv: ArgvTemplate, allow_dash: Collection[str] = ()) -> Template:
    if not isinstance(argv, list | tuple) or not argv:
        raise InvalidCommand(
            'argv must be a list that starts with a program, for example ["convert", "{payload.file}"]'
        )
    bold = frozenset(allow_dash)
    template = Template(tuple(_item(item, bold) for item in argv))
    _check_program(template.items[0])
    _check_allow_dash(template, bold)
    reject_values_in_code([(element.source, element.literal is None) for element in template.elements])
    return template


def _item(item: Any, bold: frozenset[str]) -> Element | Group:
    if isinstance(item, str):
        element = _element(item, bold)
        _check_alone(element)
        return element
    if not isinstance(item, Sequence) or not item or not all(isinstance(part, str) for part in item):
        raise InvalidCommand(f"argv must contain only strings and lists of strings, not {item!r}")
    group = Group(tuple(_element(part, bold) for part in item))
    if not any(p.optional or p.condition or p.spread for e in group.elements for p in e.placeholders):
        raise InvalidCommand(
            f"the group {list(item)} is never omitted: put its strings into argv itself, "
            "or make a placeholder in it optional, such as {payload.name?}"
        )
    return group


def _element(source: str, bold: frozenset[str]) -> Element:
    if "\x00" in source:
        raise InvalidCommand(f"{source!r} contains a NUL character, which an argument cannot contain")
    element = Element(source, tuple(_parts(source)), bold)
    placeholders = element.placeholders
    if sum(placeholder.spread for placeholder in placeholders) > 1:
        raise InvalidCommand(f"{source!r} expands two lists; an element can expand only one")
    if any(placeholder.condition for placeholder in placeholders) and len(element.parts) > 1:
        raise InvalidCommand(
            f'{source!r}: a condition must be a separate element, such as ["--force", "{{if payload.force}}"]'
        )
    _reject_option_names(element)
    return element


def _parts(source: str) -> Iterator[str | Placeholder]:
    for match in _TOKEN.finditer(source):
        token = match[0]
        if match[1] is not None:
            yield parse_placeholder(match[1])
        elif token in ("{{", "}}"):
            yield token[0]
        elif token in ("{", "}"):
            raise InvalidCommand(
                f"{source!r} has a single {token}; write {token * 2} for the character itself"
            )
        else:
            yield token


def _check_alone(element: Element) -> None:
    for placeholder in element.placeholders:
        if placeholder.optional or placeholder.condition:
            raise InvalidCommand(
                f"{element.source!r} is optional and must be in a list of its own: "
                f'["{element.source}"], together with its option, if it has one'
            )


def _reject_option_names(element: Element) -> None:
    """Reject ``--{payload.x}`` and ``--out{payload.x}``: the payload must not choose an option's name."""
    before = ""
    for part in element.parts:
        if isinstance(part, Placeholder):
            if before.strip("-") == "" != before or (before.startswith("--") and "=" not in before):
                _reject_option_name(element, part)
            return
        before += part


def _reject_option_name(element: Element, placeholder: Placeholder) -> None:
    if placeholder.name not in element.bold:
        raise InvalidCommand(
            f"{element.source!r} lets a value be part of an option's name; use --option={{…}} or "
            f"two elements, or add {placeholder.name!r} to allow_dash"
        )


def _check_program(first: Element | Group) -> None:
    if isinstance(first, Group) or first.literal is None:
        raise InvalidCommand("the program (argv[0]) must be a fixed text, not a placeholder")
    if not first.literal.strip() or first.literal.startswith("-"):
        raise InvalidCommand(f"{first.literal!r} is not a valid name of a program")


def _check_allow_dash(template: Template, bold: frozenset[str]) -> None:
    used = {placeholder.name for element in template.elements for placeholder in element.placeholders}
    if unknown := sorted(bold - used):
        raise InvalidCommand(f"allow_dash contains {', '.join(unknown)}, which argv does not use")


def _flat(items: Sequence[Element | Group]) -> Iterator[Element]:
    for item in items:
        yield from item.elements if isinstance(item, Group) else (item,)
