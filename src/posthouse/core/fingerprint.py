"""The fingerprint of an error: the same fault with other values has the same one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

LENGTH = 16
_REMEMBERED = 256
_READ = 2_000
"""Characters of a message that are looked at."""
_KEPT = 300
"""Characters of a normalised message that count: what comes after them is more often data than fault."""

# Messages of these name workers, processes and times: the type says all.
_BY_TYPE_ALONE = frozenset(
    {"Canceled", "DependencyFailed", "Poison", "SnoozeLimit", "TimedOut", "WorkerLost"}
)

_VALUE = "#"
"""One for all sorts of values: a hexadecimal number may happen to have digits only."""

Placeholder: TypeAlias = str | Callable[[re.Match[str]], str]

_UNCLOSED = re.compile(r"(?<!\w)(['\"`])(?:\\.|(?!\1).)*$", re.DOTALL)
_PATTERNS: tuple[tuple[str, Placeholder], ...] = (
    # What an exit or HTTP code says is the fault itself: its digits are hidden from the rules below.
    (
        r"(?i)\b(status|code|http(?:/[\d.]+)?|errno|sqlstate|signal)(\W{1,3})(\d{1,3})\b",
        lambda m: m[1].lower() + m[2] + _hidden(m[3]),
    ),
    (r"(['\"]?)\b([1-5]\d\d)( [A-Z][A-Za-z -]{1,40})\1", lambda m: _hidden(m[2]) + m[3]),
    (r"(?<![\w+.-])[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+", _VALUE),
    (r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _VALUE),
    (r"(?<!\w)(['\"`])(?:\\.|(?!\1).)*?\1(?!\w)", _VALUE),
    (r"(?i)\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", _VALUE),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?", _VALUE),
    (r"\b\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?\b", _VALUE),
    (r"(?<!\w)(?:[A-Za-z]:)?(?:[/\\][\w.@+~-]+){2,}[/\\]?", _VALUE),
    (r"(?i)\b0x[0-9a-f]+\b", _VALUE),
    (r"(?i)\b\d+(?:\.\d+)?e[-+]?\d+\b", _VALUE),  # before what looks like hexadecimal digits
    (r"(?i)\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b", _VALUE),
    (r"(?i)[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?", _VALUE),
    (r"\s+", " "),
    (rf"[-+]?{_VALUE}(?:[,;]? ?[-+]?{_VALUE})*", _VALUE),  # a list of values has any length
)
_RULES = tuple((re.compile(pattern), placeholder) for pattern, placeholder in _PATTERNS)


def fingerprint(error: Mapping[str, Any]) -> str:
    """Of an error as it is stored, secrets masked: type, place in the code, message without its values."""
    kind = str(error["type"])
    parts = [kind]
    if kind not in _BY_TYPE_ALONE:
        message = error.get("message")
        parts += [str(error.get("place") or ""), normalised(message if isinstance(message, str) else "")]
    # posthouse.fingerprint gives errors that are made in SQL one of their type alone, in the same way.
    text = "\x1f".join(parts).rstrip("\x1f")
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:LENGTH]


@lru_cache(_REMEMBERED)
def normalised(message: str) -> str:
    """A message without what differs from one time to the next."""
    text = message[:_READ]
    for pattern, placeholder in _RULES:
        text = pattern.sub(placeholder, text)
    if len(message) > _READ:  # cut, perhaps in the middle of a value
        text = _UNCLOSED.sub(_VALUE, text)
    return text.translate(_SHOWN).strip()[:_KEPT]


_HIDING = str.maketrans("0123456789", "".join(chr(0xE000 + digit) for digit in range(10)))
_SHOWN = str.maketrans("".join(chr(0xE000 + digit) for digit in range(10)), "0123456789")


def _hidden(digits: str) -> str:
    return digits.translate(_HIDING)
