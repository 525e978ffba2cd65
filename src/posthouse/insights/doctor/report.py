"""All findings with the overall result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from posthouse.insights.doctor.finding import Finding, Severity

Light: TypeAlias = Literal["ok", "warning", "critical"]

_SEVERITIES: tuple[Severity, ...] = ("ok", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``healthy``: no finding is an error. ``counts``: findings by severity."""

    light: Light
    healthy: bool
    counts: dict[Severity, int]
    findings: list[Finding]


def report(findings: Sequence[Finding]) -> Report:
    counts = {name: sum(item.severity == name for item in findings) for name in _SEVERITIES}
    light: Light = "critical" if counts["error"] else "warning" if counts["warning"] else "ok"
    return Report(light=light, healthy=not counts["error"], counts=counts, findings=list(findings))
