"""The doctor: named checks of the database and the queue, each with what it means and what to do."""

from posthouse.insights.doctor.examination import CHECKS, examine, examine_one
from posthouse.insights.doctor.finding import Finding, Severity, Thresholds
from posthouse.insights.doctor.report import Light, Report, report

__all__ = [
    "CHECKS",
    "Finding",
    "Light",
    "Report",
    "Severity",
    "Thresholds",
    "examine",
    "examine_one",
    "report",
]
