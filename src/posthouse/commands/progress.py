"""Progress lines in a command's output: ``posthouse: {"percent": 40, "step": "tag"}``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PREFIX = b"posthouse: "
_LONGEST_LINE = 8192
_MOST_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Progress:
    percent: float | None = None
    step: str | None = None
    message: str | None = None


def parse_progress(line: bytes) -> Progress | None:
    """Parse a line. Returns None for other lines and for invalid progress, which count as output."""
    if not line.startswith(PREFIX) or len(line) > _LONGEST_LINE:
        return None
    try:
        data = json.loads(line[len(PREFIX) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data or data.keys() - {"percent", "step", "message"}:
        return None
    percent, step, message = (data.get(name) for name in ("percent", "step", "message"))
    if _is_percent(percent) and _is_text(step) and _is_text(message):
        return Progress(percent, step, message)
    return None


def _is_percent(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_PERCENT


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


class ProgressLines:
    """Finds the newest progress in a stream at almost no cost for other output."""

    def __init__(self) -> None:
        self._line = b""
        self._newest: Progress | None = None

    def feed(self, data: bytes) -> None:
        data = self._line + data
        end = data.rfind(b"\n") + 1
        if end and PREFIX in data:
            for line in data[:end].split(b"\n"):
                self._newest = parse_progress(line) or self._newest
        self._line = data[end : end + _LONGEST_LINE + 1]  # a longer line cannot become valid

    def take(self) -> Progress | None:
        newest, self._newest = self._newest, None
        return newest

    def close(self) -> None:
        """Parse the last line, which may lack a newline."""
        self.feed(b"\n")
