"""Finds thousands of secrets in a text, in time proportional to the text."""

from __future__ import annotations

from collections.abc import Iterable

from posthouse.core.redaction.patterns import MASK

_START = 6
"""Characters that the longer secrets are found by. None of them is shorter."""
_COMPARED = 64
"""Characters of a secret that are compared: a text that repeats so many of them is masked."""
_MOST_LENGTHS = 32
"""Lengths to compare at one place. Where more secrets begin alike, the rest of the text is masked."""
_WORD_LENGTHS = (5, 4, 3)


class Index:
    """Secrets by their first characters. ``words`` are masked as whole words only."""

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
        place = done = 0
        while place < len(text):
            size = self._size_at(text, place)
            if size:
                pieces += text[done:place], MASK
                done = place = place + size
            else:
                place += 1
        return "".join([*pieces, text[done:]]) if pieces else text

    def _size_at(self, text: str, place: int) -> int:
        """Return the length of the secret that begins here; 0 if there is none."""
        lengths = self._lengths.get(text[place : place + _START], ())
        if len(lengths) > _MOST_LENGTHS:
            return len(text) - place
        for length in lengths:
            if found := self._whole.get(text[place : place + length]):
                return found
        return self._word_at(text, place) if self._words else 0

    def _word_at(self, text: str, place: int) -> int:
        if place and _is_word(text[place - 1]):
            return 0
        for size in _WORD_LENGTHS:
            end = place + size
            if text[place:end] in self._words and not (end < len(text) and _is_word(text[end])):
                return size
        return 0


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"
