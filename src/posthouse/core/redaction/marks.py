"""Find the secrets that a schema or a list of paths marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Trail: TypeAlias = tuple[str, ...]
ANY = "*"
_EVERYWHERE = ("allOf", "anyOf", "oneOf")
_HERE = ("if", "then", "else", "not")
_OTHER_KEYS = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")


def trail(path: str) -> Trail:
    """Parse ``user.cards[].number`` or ``/user/cards/*/number`` into steps. ``*`` matches any step."""
    if path.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    path = path.removeprefix("$").removeprefix(".").removeprefix("payload.")
    parts = path.replace("[", ".").replace("]", "").split(".")
    return tuple(part or ANY for part in parts)


class Marks:
    """The marks at one path of a payload: the schemas that describe it and the paths that continue."""

    __slots__ = ("_index", "_named", "_nodes", "_others", "_trails", "secret")

    def __init__(self, index: Index, nodes: Iterable[Any], trails: Sequence[Trail]) -> None:
        self._index = index
        self._nodes = index.expanded(nodes)
        self._trails = trails
        self.secret = () in trails or any(is_marked(node) for node in self._nodes)
        self._named: set[str] | None = None
        self._others: Marks | None = None

    def __bool__(self) -> bool:
        return bool(self._nodes or self._trails)

    def at_key(self, key: str) -> Marks:
        """What is known of this key. All keys that are not named anywhere have the same marks."""
        if self._named is None:
            self._named = {rest[0] for rest in self._trails if rest}
            self._named.update(*(_object(node.get("properties")) for node in self._nodes))
        if key in self._named:
            return self._at(key)
        if self._others is None:
            self._others = self._at(key)
        return self._others

    def _at(self, key: str) -> Marks:
        nodes: list[Any] = []
        for node in self._nodes:
            properties = _object(node.get("properties"))
            if key in properties:
                nodes.append(properties[key])
            else:
                nodes.extend(node.get(name) for name in _OTHER_KEYS)
            # Patterns of untrusted schemas are not run. What one of them marks is masked under every name.
            nodes.extend(_object(node.get("patternProperties")).values())
        return Marks(self._index, nodes, self._along(key))

    def at_item(self, place: int) -> Marks:
        nodes: list[Any] = []
        for node in self._nodes:
            for name in ("prefixItems", *_OTHER_ITEMS):
                found = node.get(name)
                if not isinstance(found, list):
                    nodes.append(found)
                elif place < len(found):
                    nodes.append(found[place])
        return Marks(self._index, nodes, self._along(str(place)))

    def _along(self, step: str) -> list[Trail]:
        return [rest[1:] for rest in self._trails if rest and rest[0] in {step, ANY}]


class Index:
    """A schema and the locations in it that can be referenced."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._named: dict[str, Any] = {}
        for node in _nodes(schema):
            for name, prefix in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                if isinstance(node.get(name), str):
                    self._named[prefix + node[name]] = node

    def expanded(self, nodes: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the nodes with everything that they include: references, alternatives, conditions."""
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
