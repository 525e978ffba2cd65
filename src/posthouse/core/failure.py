"""The code location and the fingerprint of an error."""

from __future__ import annotations

import hashlib
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeAlias

_OURS = str(Path(__file__).parents[1])
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def location_of(trace: TracebackType | None) -> str | None:
    """Return the innermost frame of the user's code as ``module.function``.

    The line number is left out, so that edits above it do not change the result. Installed packages count as
    libraries, except the package that contains the handler. Without a frame of the user's code, the innermost
    frame outside Posthouse is used.
    """
    frames = [frame for frame in _frames(trace) if not frame.f_code.co_filename.startswith(_OURS)]
    if not frames:
        return None
    home = _package(frames[0])
    own = [frame for frame in frames if _is_plain(frame) or _package(frame) == home]
    return _name((own or frames)[-1])


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    return (frame for frame, _ in traceback.walk_tb(trace))


def _module(frame: FrameType) -> str:
    """Return the module of a frame; for a script its file name, because ``__main__`` would be ambiguous."""
    name = str(frame.f_globals.get("__name__") or "__main__")
    return Path(frame.f_code.co_filename).stem if name == "__main__" else name


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _is_plain(frame: FrameType) -> bool:
    """Return whether the code is neither installed nor part of Python."""
    path = frame.f_code.co_filename
    if any(folder in path for folder in _INSTALLED):
        return False
    return not path.startswith((*_STANDARD, "<frozen"))


def _name(frame: FrameType) -> str:
    return f"{_module(frame)}.{frame.f_code.co_qualname}"


LENGTH = 16
_REMEMBERED = 256
_READ = 2_000
"""Number of characters of a message that are examined."""
_KEPT = 300
"""Number of characters of a normalised message that are used; later ones are more often data than error."""

# Messages of these types contain workers, processes and times; the type alone identifies the error.
_BY_TYPE_ALONE = frozenset(
    {"Canceled", "DependencyFailed", "LeaseExpired", "Poison", "SnoozeLimit", "TimedOut", "WorkerLost"}
)

_VALUE = "#"
"""One placeholder for all values: a hexadecimal number may consist of decimal digits only."""

Placeholder: TypeAlias = str | Callable[[re.Match[str]], str]

_UNCLOSED = re.compile(r"(?<!\w)(['\"`])(?:\\.|(?!\1).)*$", re.DOTALL)
_PATTERNS: tuple[tuple[str, Placeholder], ...] = (
    # Exit and HTTP status codes identify the error, so their digits are protected from the rules below.
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
    (r"(?i)\b\d+(?:\.\d+)?e[-+]?\d+\b", _VALUE),  # before the rule for hexadecimal digits
    (r"(?i)\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b", _VALUE),
    (r"(?i)[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?", _VALUE),
    (r"\s+", " "),
    (rf"[-+]?{_VALUE}(?:[,;]? ?[-+]?{_VALUE})*", _VALUE),  # lists of values may have any length
)
_RULES = tuple((re.compile(pattern), placeholder) for pattern, placeholder in _PATTERNS)


def fingerprint(error: Mapping[str, Any]) -> str:
    """Return the fingerprint of a stored, masked error: of its type, code location and normalised message."""
    kind = str(error["type"])
    parts = [kind]
    if kind not in _BY_TYPE_ALONE:
        message = error.get("message")
        parts += [str(error.get("location") or ""), normalised(message if isinstance(message, str) else "")]
    # posthouse.fingerprint uses the same rule for errors created in SQL: their type alone.
    text = "\x1f".join(parts).rstrip("\x1f")
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:LENGTH]


@lru_cache(_REMEMBERED)
def normalised(message: str) -> str:
    """Return the message without the values that differ between occurrences."""
    text = message[:_READ]
    for pattern, placeholder in _RULES:
        text = pattern.sub(placeholder, text)
    if len(message) > _READ:  # truncated, perhaps in the middle of a value
        text = _UNCLOSED.sub(_VALUE, text)
    return text.translate(_SHOWN).strip()[:_KEPT]


_HIDING = str.maketrans("0123456789", "".join(chr(0xE000 + digit) for digit in range(10)))
_SHOWN = str.maketrans("".join(chr(0xE000 + digit) for digit in range(10)), "0123456789")


def _hidden(digits: str) -> str:
    return digits.translate(_HIDING)
