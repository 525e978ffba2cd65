r"""Payload templates: JSON with placeholders such as ``{{event.folder.path}}``. Nothing is computed.

A string that is exactly one placeholder becomes the value itself, with its type. Within a longer string the
value becomes text. ``\{{`` is a literal ``{{``. A path that does not exist is an error, never an empty value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import to_json

from posthouse.core.redaction.patterns import MASK
from posthouse.errors import InvalidTemplate, TemplateError

MOST_BYTES = 65_536
MOST_DEPTH = 50
RENDERED_BYTES = 16_000_000
_MOST_NAMES = 20

_TOKEN = re.compile(r"\\\{\{|\{\{(.*?)\}\}|\{\{", re.DOTALL)
_INDEX = re.compile(r"[0-9]{1,9}\Z")
_PATH = re.compile(r"[\w-]+(\.[\w-]+)*\Z")


def check_template(template: Any, roots: frozenset[str]) -> None:
    """Raise InvalidTemplate unless this is a JSON object whose placeholders start with one of these names."""
    if not isinstance(template, Mapping):
        raise InvalidTemplate("a payload template must be a JSON object")
    if len(to_json(template)) > MOST_BYTES:
        raise InvalidTemplate(f"a payload template must have at most {MOST_BYTES:,} bytes")
    for path in _paths(template, "template", 0):
        root = path.partition(".")[0]
        if root not in roots:
            raise InvalidTemplate(f"{{{{{path}}}}} must start with one of {', '.join(sorted(roots))}")


def is_fixed(template: Any) -> bool:
    """Return whether the template has no placeholders."""
    return next(_paths(template, "template", 0), None) is None


def masked_place(template: Any, place: str = "template") -> str | None:
    """Return the path of a masked value ("[redacted]"), which was copied from an API response, or None."""
    if isinstance(template, Mapping):
        found = (masked_place(item, f"{place}.{key}") for key, item in template.items())
    elif isinstance(template, list):
        found = (masked_place(item, f"{place}[{index}]") for index, item in enumerate(template))
    else:
        return place if isinstance(template, str) and MASK in template else None
    return next(filter(None, found), None)


def render(template: Any, context: Mapping[str, Any]) -> Any:
    """Render the template. Raises TemplateError if a placeholder has no value."""
    return _Rendering(context).value(template)


def _paths(value: Any, place: str, depth: int) -> Iterator[str]:
    """Yield all placeholders. Raises InvalidTemplate for an invalid one."""
    if depth > MOST_DEPTH:
        raise InvalidTemplate(f"a payload template must be at most {MOST_DEPTH} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if "{{" in key:
                raise InvalidTemplate(
                    f"{place}: the field name {key!r} contains a placeholder; only values may"
                )
            yield from _paths(item, f"{place}.{key}", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{place}[{index}]", depth + 1)
    elif isinstance(value, str):
        for match in _TOKEN.finditer(value):
            if match[0] != "\\{{":
                yield _path_of(match, place)


def _path_of(match: re.Match[str], place: str) -> str:
    if match[1] is None:
        raise InvalidTemplate(f"{place}: the placeholder is not closed; write \\{{{{ for literal braces")
    path = match[1].strip()
    if not _PATH.match(path):
        raise InvalidTemplate(
            f"{place}: invalid placeholder {match[0]}; use a path such as {{{{event.folder.path}}}}"
        )
    return path


class _Rendering:
    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._bytes = 0
        self._found: dict[str, tuple[Any, int]] = {}

    def value(self, template: Any) -> Any:
        if isinstance(template, Mapping):
            return {key: self.value(item) for key, item in template.items()}
        if isinstance(template, list):
            return [self.value(item) for item in template]
        return self._string(template) if isinstance(template, str) else template

    def _string(self, template: str) -> Any:
        whole = _TOKEN.fullmatch(template)
        if whole is not None and whole[1] is not None and "{{" not in whole[1]:
            return self._lookup(_path_of(whole, "template"))
        return _TOKEN.sub(self._text, template)

    def _text(self, match: re.Match[str]) -> str:
        if match[0] == "\\{{":
            return "{{"
        path = _path_of(match, "template")
        value = self._lookup(path)
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, Mapping | list):
            raise TemplateError(f"{path} is {_described(value)}, which cannot be inserted into text")
        return to_json(value).decode()

    def _lookup(self, path: str) -> Any:
        if path not in self._found:
            value = _follow(self._context, path)
            self._found[path] = value, len(to_json(value))
        value, size = self._found[path]
        self._bytes += size  # a large value can be inserted many times
        if self._bytes > RENDERED_BYTES:
            raise TemplateError(f"the payload would have more than {RENDERED_BYTES:,} bytes")
        return value


def _follow(context: Mapping[str, Any], path: str) -> Any:
    value: Any = context
    walked: list[str] = []
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.match(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            raise TemplateError(f"{path} is missing: {'.'.join(walked) or 'the context'} {_has(value)}")
        walked.append(part)
    return value


def _has(value: Any) -> str:
    if isinstance(value, Mapping):
        names = sorted(map(str, value))
        more = ", …" if len(names) > _MOST_NAMES else ""
        return f"has {', '.join(names[:_MOST_NAMES])}{more}" if names else "is empty"
    if isinstance(value, list):
        return f"is a list of {len(value)}"
    return f"is {_described(value)}"


def _described(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number")
