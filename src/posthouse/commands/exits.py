"""Map exit codes to outcomes of the job."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from posthouse.core.duration import seconds
from posthouse.errors import ConfigurationError, InvalidCommand

Action = Literal["succeed", "retry", "fail", "snooze", "timeout", "canceled"]

SIGNALED = 128  # a process killed by signal n counts as exit code 128 + n, as in shells
_HIGHEST = 255
_KEY = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
_DEFAULTS = {"0": "succeed", "65": "fail", "75": "retry"}  # EX_DATAERR, EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome; ``delay`` is the delay of a snooze in seconds."""

    action: Action
    delay: float = 0.0


class ExitCodes:
    """A table of exit codes and ranges. Single codes take precedence over ranges, and both
    over the defaults.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self._singles: dict[int, Outcome] = {}
        self._ranges: list[tuple[int, int, Outcome]] = []
        for key, action in table.items():
            self._add(*_span(key), _outcome(key, action))
        self._defaults = {int(code): _outcome(code, action) for code, action in _DEFAULTS.items()}

    def _add(self, low: int, high: int, outcome: Outcome) -> None:
        if low == high:
            self._singles[low] = outcome
            return
        for other_low, other_high, _ in self._ranges:
            if low <= other_high and other_low <= high:
                raise InvalidCommand(f"exit_codes: {low}-{high} and {other_low}-{other_high} overlap")
        self._ranges.append((low, high, outcome))

    def __getitem__(self, code: int) -> Outcome:
        if code in self._singles:
            return self._singles[code]
        for low, high, outcome in self._ranges:
            if low <= code <= high:
                return outcome
        return self._defaults.get(code, Outcome("retry"))


def _span(key: Any) -> tuple[int, int]:
    match = _KEY.fullmatch(key) if isinstance(key, str) else None
    if match is None:
        raise InvalidCommand(
            f'exit_codes: invalid key {key!r}; use a code such as "75" or a range such as "1-63"'
        )
    low, high = int(match[1]), int(match[2] or match[1])
    if not low <= high <= _HIGHEST:
        raise InvalidCommand(
            f"exit_codes: {key!r} must be between 0 and {_HIGHEST}, with the lower code first"
        )
    return low, high


def _outcome(key: str, action: Any) -> Outcome:
    match action:
        case "succeed" | "retry" | "fail":
            return Outcome(action)
        case str() if action.startswith("snooze:"):
            try:
                return Outcome("snooze", seconds(action.removeprefix("snooze:")))
            except ConfigurationError as error:
                raise InvalidCommand(f"exit_codes: {key}: {error}") from None
    raise InvalidCommand(
        f'exit_codes: {key} must be "succeed", "retry", "fail" or "snooze:30s", not {action!r}'
    )


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
