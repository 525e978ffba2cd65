"""Priorities: integers, lower first; four have names."""

from __future__ import annotations

from posthouse.errors import InvalidJob

NAMES = {"urgent": 10, "high": 50, "normal": 100, "low": 200}


def priority_number(value: int | str) -> int:
    if isinstance(value, int):
        return value
    try:
        return NAMES[value.lower()]
    except KeyError:
        names = ", ".join(NAMES)
        raise InvalidJob(f"priority must be an integer or one of {names}, not {value!r}") from None
