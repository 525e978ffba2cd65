"""Values that must not be seen, and the shapes in which they turn up in texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from posthouse.core.redaction.patterns import MASK

SHORTEST = 3
SHORTEST_ANYWHERE = 6
"""Shorter ones, such as a PIN, are masked as whole words only: they occur by chance."""
_EDGE = 4
_LONGEST_EDGE = 4096
_LINE = 8


class Secrets:
    """What one payload holds that must not be seen."""

    __slots__ = ("_anywhere", "_words")

    def __init__(self, values: Iterable[str]) -> None:
        shapes = {shape for value in values for shape in _shapes(value) if len(shape) >= SHORTEST}
        ordered = sorted(shapes, key=len, reverse=True)  # one may be part of another
        self._anywhere = [shape for shape in ordered if len(shape) >= SHORTEST_ANYWHERE]
        words = [re.escape(shape) for shape in ordered if len(shape) < SHORTEST_ANYWHERE]
        self._words = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)") if words else None

    def __bool__(self) -> bool:
        return bool(self._anywhere) or self._words is not None

    def mask(self, text: str, *, cut: bool = False) -> str:
        """The text without them. ``cut``: it is a piece of a longer one, and may end within a secret."""
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
    """As it is, as JSON and Python write it, as it stands in a URL; and each line of a long one."""
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
