"""Durations: ``"90s"``, ``"5m"``, ``"1h30m"``, or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from posthouse.errors import ConfigurationError

Duration: TypeAlias = str | int | float | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")


def seconds(value: Duration) -> float:
    """Return the seconds of a duration. Raises ConfigurationError if it is negative or invalid."""
    amount = _amount(value)
    if amount < 0 or amount != amount or amount == float("inf"):  # noqa: PLR0124 - NaN does not equal itself
        raise ConfigurationError(f"a duration must be a finite number of seconds >= 0, not {value!r}")
    return amount


def _amount(value: Duration) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _parse(value)
    return float(value)


def _parse(text: str) -> float:
    compact = text.strip().lower()
    parts = _PART.findall(compact)
    if not parts or "".join(f"{n}{u}" for n, u in parts) != compact.replace(" ", ""):
        raise ConfigurationError(f"invalid duration {text!r}; use a form like 30s, 5m, 1h30m or 2d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
