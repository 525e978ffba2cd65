"""Mask secrets: by marks in a schema, by paths of a definition, and wherever their values occur in texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

from posthouse.core.redaction.patterns import MASK, is_secret, mask_text

JsonPath: TypeAlias = tuple[str, ...]
ANY = "*"
_EVERYWHERE = ("allOf", "anyOf", "oneOf")
_HERE = ("if", "then", "else", "not")
_OTHER_KEYS = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")


def trail(path: str) -> JsonPath:
    """Parse ``user.cards[].number`` or ``/user/cards/*/number`` into steps. ``*`` matches any step."""
    if path.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    path = path.removeprefix("$").removeprefix(".").removeprefix("payload.")
    parts = path.replace("[", ".").replace("]", "").split(".")
    return tuple(part or ANY for part in parts)


class SecretPaths:
    """The marks at one path of a payload: the schemas that describe it and the paths that continue."""

    __slots__ = ("_index", "_named", "_nodes", "_others", "_trails", "secret")

    def __init__(self, index: SchemaIndex, nodes: Iterable[Any], trails: Sequence[JsonPath]) -> None:
        self._index = index
        self._nodes = index.expanded(nodes)
        self._trails = trails
        self.secret = () in trails or any(is_marked(node) for node in self._nodes)
        self._named: set[str] | None = None
        self._others: SecretPaths | None = None

    def __bool__(self) -> bool:
        return bool(self._nodes or self._trails)

    def at_key(self, key: str) -> SecretPaths:
        """Return the marks at this key. All keys that are not named anywhere have the same marks."""
        if self._named is None:
            self._named = {rest[0] for rest in self._trails if rest}
            self._named.update(*(_object(node.get("properties")) for node in self._nodes))
        if key in self._named:
            return self._at(key)
        if self._others is None:
            self._others = self._at(key)
        return self._others

    def _at(self, key: str) -> SecretPaths:
        nodes: list[Any] = []
        for node in self._nodes:
            properties = _object(node.get("properties"))
            if key in properties:
                nodes.append(properties[key])
            else:
                nodes.extend(node.get(name) for name in _OTHER_KEYS)
            # Patterns of untrusted schemas are not run, so their marks apply to every name.
            nodes.extend(_object(node.get("patternProperties")).values())
        return SecretPaths(self._index, nodes, self._along(key))

    def at_item(self, index: int) -> SecretPaths:
        nodes: list[Any] = []
        for node in self._nodes:
            for name in ("prefixItems", *_OTHER_ITEMS):
                found = node.get(name)
                if not isinstance(found, list):
                    nodes.append(found)
                elif index < len(found):
                    nodes.append(found[index])
        return SecretPaths(self._index, nodes, self._along(str(index)))

    def _along(self, step: str) -> list[JsonPath]:
        return [rest[1:] for rest in self._trails if rest and rest[0] in {step, ANY}]


class SchemaIndex:
    """A schema and the locations in it that can be referenced."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._named: dict[str, Any] = {}
        for node in _nodes(schema):
            for name, prefix in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                if isinstance(node.get(name), str):
                    self._named[prefix + node[name]] = node

    def expanded(self, nodes: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the nodes with all nodes that they include: references, alternatives, conditions."""
        found: dict[int, dict[str, Any]] = {}
        left = list(nodes)
        while left:
            node = left.pop()
            if not isinstance(node, dict) or id(node) in found:
                continue
            found[id(node)] = node
            left.extend(self.resolved(node.get(name)) for name in ("$ref", "$dynamicRef"))
            for name in _EVERYWHERE:
                if isinstance(node.get(name), list):
                    left.extend(node[name])
            left.extend(node.get(name) for name in _HERE)
            left.extend(_object(node.get("dependentSchemas")).values())
        return list(found.values())

    def resolved(self, reference: Any) -> Any:
        if not isinstance(reference, str):
            return None
        if reference in self._named:
            return self._named[reference]
        base, _, pointer = reference.partition("#")
        node = self._named.get(base, self._root) if base else self._root
        for part in trail(pointer) if pointer.startswith("/") else ():
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
                node = node[int(part)]
            else:
                return None
        return node


def has_marks(schema: Any) -> bool:
    return any(is_marked(node) for node in _nodes(schema))


def is_marked(node: Mapping[str, Any]) -> bool:
    return node.get("writeOnly") is True or node.get("x-secret") is True or node.get("format") == "password"


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    left = [schema]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_START = 6
"""Number of characters by which the longer secrets are found. None of these secrets is shorter."""
_COMPARED = 64
"""Number of characters of a secret that are compared. A text that repeats this many is masked."""
_MAX_LENGTHS = 32
"""Maximum number of lengths to compare at one position.

If more secrets begin in the same way, the rest of the text is masked.
"""
_WORD_LENGTHS = (5, 4, 3)


class SecretIndex:
    """An index of secrets by their first characters. ``words`` are masked as whole words only."""

    def __init__(self, anywhere: Iterable[str], words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._whole: dict[str, int] = {}
        lengths: dict[str, set[int]] = {}
        for shape in anywhere:
            head = shape[:_COMPARED]
            self._whole[head] = max(len(shape), self._whole.get(head, 0))
            lengths.setdefault(shape[:_START], set()).add(len(head))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def mask(self, text: str) -> str:
        pieces: list[str] = []
        position = done = 0
        while position < len(text):
            size = self._size_at(text, position)
            if size:
                pieces += text[done:position], MASK
                done = position = position + size
            else:
                position += 1
        return "".join([*pieces, text[done:]]) if pieces else text

    def _size_at(self, text: str, position: int) -> int:
        """Return the length of the secret that begins here; 0 if there is none."""
        lengths = self._lengths.get(text[position : position + _START], ())
        if len(lengths) > _MAX_LENGTHS:
            return len(text) - position
        for length in lengths:
            if found := self._whole.get(text[position : position + length]):
                return found
        return self._word_at(text, position) if self._words else 0

    def _word_at(self, text: str, position: int) -> int:
        if position and _is_word(text[position - 1]):
            return 0
        for size in _WORD_LENGTHS:
            end = position + size
            if text[position:end] in self._words and not (end < len(text) and _is_word(text[end])):
                return size
        return 0


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


MIN_SECRET_CHARS = 3
MIN_CHARS_ANYWHERE = 6
"""Minimum length of secrets that are masked anywhere; shorter ones, such as a PIN, only as whole words."""
MANY = 200
"""With more forms than this, a text is searched once by an index instead of once for each form."""
_EDGE = 4
_MAX_EDGE_CHARS = 4096
_LINE = 8


class Secrets:
    """The secret values of one payload."""

    __slots__ = ("_anywhere", "_index", "_words")

    def __init__(self, values: Iterable[str]) -> None:
        shapes = {shape for value in values for shape in _shapes(value) if len(shape) >= MIN_SECRET_CHARS}
        ordered = sorted(shapes, key=len, reverse=True)  # a form may contain another one
        self._anywhere = [shape for shape in ordered if len(shape) >= MIN_CHARS_ANYWHERE]
        words = [shape for shape in ordered if len(shape) < MIN_CHARS_ANYWHERE]
        self._index = SecretIndex(self._anywhere, words) if len(ordered) > MANY else None
        listed = "|".join(map(re.escape, words)) if self._index is None else ""
        self._words = re.compile(rf"(?<!\w)(?:{listed})(?!\w)") if listed else None

    def __bool__(self) -> bool:
        return bool(self._anywhere or self._index) or self._words is not None

    def mask(self, text: str, *, cut: bool = False) -> str:
        """Return the text without the secrets.

        ``cut``: the text is a piece of a longer text and may end within a secret.
        """
        if self._index is not None:
            text = self._index.mask(text)
            return self._without_edges(text) if cut else text
        for shape in self._anywhere:
            if shape in text:
                text = text.replace(shape, MASK)
        if self._words is not None:
            text = self._words.sub(MASK, text)
        return self._without_edges(text) if cut else text

    def _without_edges(self, text: str) -> str:
        for shape in self._anywhere:
            longest = min(len(shape) - 1, len(text), _MAX_EDGE_CHARS)
            for size in range(longest, _EDGE - 1, -1):
                if text.startswith(shape[-size:]):
                    text = MASK + text[size:]
                    break
            for size in range(min(longest, len(text)), _EDGE - 1, -1):
                if text.endswith(shape[:size]):
                    text = text[:-size] + MASK
                    break
        return text


def _shapes(value: str) -> Iterator[str]:
    """Yield the forms of a value: plain, in JSON, in Python, in a URL; and each line of a long value."""
    yield value
    yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield quote(value, safe="", errors="replace")
    yield quote_plus(value, errors="replace")
    for line in value.splitlines():
        if len(line.strip()) >= _LINE:
            yield line.strip()


NO_SECRETS = Secrets(())


class Redactor:
    """A redactor for the secrets of a kind, known by its schema, its ``redact`` paths, and field names."""

    def __init__(self, schema: Any = None, redact: Iterable[str] = ()) -> None:
        marked = schema if has_marks(schema) else None
        self._marks = SecretPaths(SchemaIndex(marked), [marked], [trail(path) for path in redact])

    def value(self, value: Any, secrets: Secrets = NO_SECRETS) -> Any:
        """Return a copy of a value without its own secrets and without ``secrets``."""
        found: list[str] = []
        masked = _masked(value, self._marks, found.append)
        own = Secrets(found) if found else NO_SECRETS
        if not own and not secrets:
            return _texts_masked(masked, mask_text)
        return _texts_masked(masked, lambda text: mask_text(secrets.mask(own.mask(text))))

    def secrets(self, payload: Any) -> Secrets:
        """Return the values of a payload that must be masked everywhere."""
        found: list[str] = []
        _masked(payload, self._marks, found.append)
        return Secrets(found) if found else NO_SECRETS

    def text(self, text: str, secrets: Secrets = NO_SECRETS, *, cut: bool = False) -> str:
        """Return the text with secrets masked. ``cut``: the text is a piece of a longer text."""
        return mask_text(secrets.mask(text, cut=cut))

    def schema(self, schema: Any) -> Any:
        """Return a schema without the examples and defaults of fields that it marks as secret."""
        return _schema_masked(schema, secret=False)


PLAIN = Redactor()
"""The redactor for texts that belong to no kind: it uses names and patterns only."""


@lru_cache(maxsize=512)
def redactor_for(schema_text: str | None, redact: tuple[str, ...]) -> Redactor:
    return Redactor(json.loads(schema_text) if schema_text else None, redact)


def _masked(value: Any, marks: SecretPaths, collect: Callable[[str], None], name: str = "") -> Any:
    if value is not None and (marks.secret or is_secret(name, value)):
        _collect_leaves(value, collect)
        return MASK
    if isinstance(value, dict):
        return {
            key: _masked(item, marks.at_key(key) if marks else marks, collect, key)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _masked(item, marks.at_item(index) if marks else marks, collect)
            for index, item in enumerate(value)
        ]
    return value


def _collect_leaves(value: Any, collect: Callable[[str], None]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _collect_leaves(item, collect)
    elif isinstance(value, list):
        for item in value:
            _collect_leaves(item, collect)
    elif isinstance(value, str):
        collect(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        collect(str(value))


def _texts_masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(key): _texts_masked(item, mask) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts_masked(item, mask) for item in value]
    return value


_SHOWN = ("default", "const", "enum", "examples", "example")


def _schema_masked(schema: Any, *, secret: bool, name: str = "") -> Any:
    if isinstance(schema, list):
        return [_schema_masked(item, secret=secret) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = secret or is_marked(schema) or any(is_secret(name, schema.get(key)) for key in _SHOWN)
    shown: dict[str, Any] = {}
    for key, item in schema.items():
        if key in _SHOWN and not isinstance(item, dict):
            shown[key] = MASK if own else PLAIN.value(item)
        elif key == "properties" and isinstance(item, dict):
            shown[key] = {inner: _schema_masked(node, secret=own, name=inner) for inner, node in item.items()}
        else:
            shown[key] = _schema_masked(item, secret=own)
    return shown
