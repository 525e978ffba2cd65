"""Mask the values and texts of one job kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from posthouse.core.redaction.marks import Index, Marks, has_marks, is_marked, trail
from posthouse.core.redaction.names import is_secret
from posthouse.core.redaction.patterns import MASK, mask_text
from posthouse.core.redaction.secrets import NO_SECRETS, Secrets


class Redactor:
    """Masks the secrets of a kind, known by its schema, its ``redact`` paths, and field names."""

    def __init__(self, schema: Any = None, redact: Iterable[str] = ()) -> None:
        marked = schema if has_marks(schema) else None
        self._marks = Marks(Index(marked), [marked], [trail(path) for path in redact])

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
        """Return the text with secrets masked. ``cut``: it is a piece of a longer text."""
        return mask_text(secrets.mask(text, cut=cut))

    def schema(self, schema: Any) -> Any:
        """Return a schema without the examples and defaults of fields that it marks as secret."""
        return _schema_masked(schema, secret=False)


PLAIN = Redactor()
"""For texts of no kind: names and patterns only."""


@lru_cache(maxsize=512)
def redactor_for(schema_text: str | None, redact: tuple[str, ...]) -> Redactor:
    return Redactor(json.loads(schema_text) if schema_text else None, redact)


def _masked(value: Any, marks: Marks, note: Callable[[str], None], name: str = "") -> Any:
    if value is not None and (marks.secret or is_secret(name, value)):
        _note_leaves(value, note)
        return MASK
    if isinstance(value, dict):
        return {
            key: _masked(item, marks.at_key(key) if marks else marks, note, key)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _masked(item, marks.at_item(place) if marks else marks, note) for place, item in enumerate(value)
        ]
    return value


def _note_leaves(value: Any, note: Callable[[str], None]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _note_leaves(item, note)
    elif isinstance(value, list):
        for item in value:
            _note_leaves(item, note)
    elif isinstance(value, str):
        note(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        note(str(value))


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
