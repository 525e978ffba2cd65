"""Secret values and the forms in which they occur in text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from posthouse.core.redaction.patterns import MASK
from posthouse.core.redaction.secret_index import Index

SHORTEST = 3
SHORTEST_ANYWHERE = 6
"""Shorter secrets, such as a PIN, are masked only as whole words, because they also occur by chance."""
MANY = 200
"""With more forms than this, a text is searched once by an index instead of once for each form."""
_EDGE = 4
_LONGEST_EDGE = 4096
_LINE = 8


class Secrets:
    """The secret values of one payload."""

    __slots__ = ("_anywhere", "_index", "_words")

    def __init__(self, values: Iterable[str]) -> None:
        shapes = {shape for value in values for shape in _shapes(value) if len(shape) >= SHORTEST}
        ordered = sorted(shapes, key=len, reverse=True)  # a form may contain another one
        self._anywhere = [shape for shape in ordered if len(shape) >= SHORTEST_ANYWHERE]
        words = [shape for shape in ordered if len(shape) < SHORTEST_ANYWHERE]
        self._index = Index(self._anywhere, words) if len(ordered) > MANY else None
        listed = "|".join(map(re.escape, words)) if self._index is None else ""
        self._words = re.compile(rf"(?<!\w)(?:{listed})(?!\w)") if listed else None

    def __bool__(self) -> bool:
        return bool(self._anywhere or self._index) or self._words is not None

    def mask(self, text: str, *, cut: bool = False) -> str:
        """Return the text without the secrets. ``cut``: it is a piece of a longer text and may end within a
        secret.
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
            longest = min(len(shape) - 1, len(text), _LONGEST_EDGE)
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
