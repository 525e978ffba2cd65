"""Findings of the doctor, and their report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from posthouse.settings import Settings
from posthouse.storage.queries import Db

Severity: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding of a check.

    ``evidence`` holds the rows that the finding is based on: sessions, tables, workers, jobs.
    """

    severity: Severity
    summary: str
    meaning: str = ""
    advice: str = ""
    evidence: list[dict[str, Any]] = field(default_factory=list)
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the checks."""

    horizon_warning_seconds: float = 300.0
    horizon_error_seconds: float = 3600.0
    horizon_transactions: int = 1_000_000
    dead_rows: int = 100_000
    dead_share: float = 0.5
    partition_days: int = 2
    stuck_seconds: float = 60.0
    lease_grace_seconds: float = 15.0
    overdue_seconds: float = 15.0
    lost_within_seconds: float = 3600.0
    clock_seconds: float = 2.0
    connections_warning: float = 0.8
    connections_error: float = 0.95
    check_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The data and settings that the checks examine."""

    connection: Db
    settings: Settings
    thresholds: Thresholds


def ok(summary: str) -> Finding:
    return Finding(severity="ok", summary=summary)


OverallStatus: TypeAlias = Literal["ok", "warning", "critical"]

_SEVERITIES: tuple[Severity, ...] = ("ok", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of all checks. ``healthy``: no finding is an error. ``counts``: findings by severity."""

    status: OverallStatus
    healthy: bool
    counts: dict[Severity, int]
    findings: list[Finding]


def report(findings: Sequence[Finding]) -> Report:
    counts = {name: sum(item.severity == name for item in findings) for name in _SEVERITIES}
    status: OverallStatus = "critical" if counts["error"] else "warning" if counts["warning"] else "ok"
    return Report(status=status, healthy=not counts["error"], counts=counts, findings=list(findings))
