"""Concurrency and rate limits of job kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic_core import to_json

from posthouse.core.duration import seconds
from posthouse.errors import ConfigurationError

Per: TypeAlias = Literal["all", "tenant", "key"]

_RATE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PER = ("all", "tenant", "key")
_RATE = re.compile(r"\s*([0-9.]+)\s*/\s*([0-9.]*)\s*([a-z]+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit on the number of running jobs, on the rate of starts, or on both.

    - ``running``: maximum number of jobs that run at the same time.
    - ``rate``: maximum number of starts per time, such as ``"10/s"`` or ``"100/5m"``.
    - ``per``: what the limit applies to: ``"all"`` jobs of the kind together, each ``"tenant"``, or each
      ``"key"`` (the job's ``limit_key``).
    - ``name``: name of the limit. Kinds with a limit of the same name share it. Default: derived from the
      kind.
    - ``burst``: maximum number of starts at once after an idle period.
    - ``weight``: number of starts that one start of this kind counts for.
    """

    running: int | None = None
    rate: str | None = None
    per: Per = "all"
    name: str | None = None
    burst: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.running is None and self.rate is None:
            raise ConfigurationError("a limit must have running, rate or both")
        checked_per(self.per)
        if self.running is not None and self.running < 0:
            raise ConfigurationError(f"running must be 0 or more, not {self.running}")
        if self.rate is not None:
            rate_per_second(self.rate)

    def announcement(self, kind: str) -> dict[str, Any]:
        """Return the limit as it is registered in the database."""
        fields: dict[str, Any] = {
            "name": self.name or self._own_name(kind),
            "kinds": [kind],
            "per": self.per,
            "max_running": self.running,
        }
        if self.rate is not None:
            per_second = rate_per_second(self.rate)
            burst = self.burst if self.burst is not None else max(1.0, per_second, self.weight)
            fields |= {"rate": per_second, "burst": burst, "weights": {kind: self.weight}}
        return fields

    def _own_name(self, kind: str) -> str:
        what = "-".join(["running"] * (self.running is not None) + ["rate"] * (self.rate is not None))
        return f"{kind}: {what}" if self.per == "all" else f"{kind}: {what} per {self.per}"


def checked_per(per: str) -> str:
    if per not in _PER:
        raise ConfigurationError(f"per must be one of {', '.join(_PER)}, not {per!r}")
    return per


def rate_per_second(text: str) -> float:
    """Convert a rate such as ``10/s``, ``100/m`` or ``5/30s`` to starts per second."""
    found = _RATE.fullmatch(text)
    try:
        if found is None:
            raise ValueError  # noqa: TRY301 - one error message for all invalid forms
        count, length, unit = found.groups()
        rate = float(count) / seconds(f"{length or 1}{unit}")
        if rate <= 0:
            raise ValueError  # noqa: TRY301
    except (ValueError, ConfigurationError, ZeroDivisionError):
        raise ConfigurationError(f"invalid rate {text!r}: use a form like 10/s, 100/m or 5/30s") from None
    return rate


def shown_rate(rate: float) -> str:
    """Format starts per second in the smallest unit that gives a whole number: ``10/s``, ``5/m``."""
    counts = [(rate * length, unit) for unit, length in _RATE_UNITS.items()]
    whole = [
        (count, unit) for count, unit in counts if count >= 1 and abs(count - round(count)) < 1e-6 * count
    ]
    count, unit = next(iter(whole), None) or next((item for item in counts if item[0] >= 1), counts[-1])
    return f"{count:.6g}/{unit}"


def text_at(payload: Mapping[str, Any], path: str) -> str | None:
    """Return the payload field at a path as text, or None, by the same rules as posthouse.limit_key."""
    value: Any = payload
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    if value is None or isinstance(value, str):
        return value
    return to_json(value).decode()
