"""Periodic doctor checks whose findings become alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from posthouse.core.alerts import AlertType, chosen_types
from posthouse.insights.doctor import Finding, Thresholds, run_check
from posthouse.insights.doctor.queue_checks import stuck_finding, unserved_finding
from posthouse.settings import Settings
from posthouse.storage.alerts import raise_alert
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.queries import Db

CHECK_INTERVAL_SECONDS = 30.0
_RESERVED_PREFIX = "posthouse."


@dataclass(frozen=True, slots=True)
class HealthAlert:
    """A finding that becomes an alert, unless an alert with its key exists."""

    type: AlertType
    subject: str
    key: str
    finding: Finding
    evidence: Mapping[str, Any]


class DoctorChecks:
    """The step that runs the doctor's checks and creates alerts."""

    name = "doctor"

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings
        self._types = chosen_types(settings.alert_types)
        self._thresholds = Thresholds(
            stuck_seconds=settings.alert_stuck_seconds,
            horizon_warning_seconds=settings.alert_transaction_age_seconds,
            horizon_error_seconds=max(
                Thresholds().horizon_error_seconds, settings.alert_transaction_age_seconds
            ),
        )

    async def run_once(self) -> dict[str, int]:
        return {"raised": await self._connection.run(self._check)}

    async def _check(self, connection: Db) -> int:
        raised = 0
        async for fact in self._facts(connection):
            raised += await raise_alert(
                connection,
                fact.type,
                subject=fact.subject,
                message=f"{fact.finding.summary}. {fact.finding.meaning}",
                details={**_to_json(fact.evidence), "advice": fact.finding.advice},
                dedupe_key=fact.key,
            )
        return raised

    async def _facts(self, connection: Db) -> AsyncIterator[HealthAlert]:
        if AlertType.QUEUE_STUCK in self._types:
            for check, describe in (("stuck", self._describe_stuck), ("unserved", unserved_finding)):
                finding = await run_check(connection, self._settings, check, self._thresholds)
                for fact in self._stuck_queues(finding.evidence, describe):
                    yield fact
        if AlertType.HORIZON_PINNED in self._types:
            finding = await run_check(connection, self._settings, "horizon", self._thresholds)
            for holder in finding.evidence[:1] if finding.severity != "ok" else ():
                yield HealthAlert(
                    AlertType.HORIZON_PINNED, _describe_holder(holder), _holder_key(holder), finding, holder
                )

    def _describe_stuck(self, lines: list[dict[str, Any]]) -> Finding:
        return stuck_finding(lines, self._thresholds.stuck_seconds)

    def _stuck_queues(
        self, lines: list[dict[str, Any]], describe: Callable[[list[dict[str, Any]]], Finding]
    ) -> list[HealthAlert]:
        """Return one fact per stuck queue, which describes its lanes.

        The key of the fact stays the same until its oldest lane moves.
        """
        queues: dict[str, list[dict[str, Any]]] = {}
        for line in lines:
            is_expected = line["paused"] or line["limited"] or line["kind"].startswith(_RESERVED_PREFIX)
            if line["waited_seconds"] >= self._settings.alert_stuck_seconds and not is_expected:
                queues.setdefault(line["queue"], []).append(line)  # the longest waiting come first
        return [
            HealthAlert(
                AlertType.QUEUE_STUCK,
                queue,
                f"{queue} {stuck[0]['kind']} {stuck[0]['since'].timestamp()}",
                describe(stuck),
                stuck[0],
            )
            for queue, stuck in queues.items()
        ]

    def pause(self) -> float:
        return CHECK_INTERVAL_SECONDS


def _describe_holder(holder: Mapping[str, Any]) -> str:
    return f"{holder['holder']} {holder['name'] or holder['pid']}"


def _holder_key(holder: Mapping[str, Any]) -> str:
    """Return the key of a fact. Replication slots and standbys have no start time, so each is one fact."""
    since = holder["since"]
    return _describe_holder(holder) + (f" {since.timestamp()}" if since is not None else "")


def _to_json(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in evidence.items()
        if value is not None and name != "query"  # the text of a query may contain any data
    }
