"""Periodic doctor checks whose findings become alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from posthouse.core.alerts import AlertType, chosen_types
from posthouse.insights.doctor import Finding, Thresholds, run_check
from posthouse.settings import Settings
from posthouse.storage.alerts import raise_alert
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.queries import Db

ROUND_SECONDS = 30.0
_OWN = "posthouse."


@dataclass(frozen=True, slots=True)
class Fact:
    """A finding that becomes an alert, unless an alert with its key exists."""

    type: AlertType
    subject: str
    key: str
    finding: Finding
    evidence: Mapping[str, Any]


class Rounds:
    """The step that runs the doctor's checks and creates alerts."""

    name = "rounds"

    def __init__(self, line: ReconnectingConnection, settings: Settings) -> None:
        self._line = line
        self._settings = settings
        self._types = chosen_types(settings.alert_types)
        self._thresholds = Thresholds(
            stuck_seconds=settings.alert_stuck_seconds,
            horizon_warning_seconds=settings.alert_horizon_seconds,
            horizon_error_seconds=max(Thresholds().horizon_error_seconds, settings.alert_horizon_seconds),
        )

    async def run_once(self) -> dict[str, int]:
        return {"raised": await self._line.run(self._go_round)}

    async def _go_round(self, connection: Db) -> int:
        raised = 0
        async for fact in self._facts(connection):
            raised += await raise_alert(
                connection,
                fact.type,
                subject=fact.subject,
                message=f"{fact.finding.summary}. {fact.finding.meaning}",
                details={**_plain(fact.evidence), "advice": fact.finding.advice},
                fact_key=fact.key,
            )
        return raised

    async def _facts(self, connection: Db) -> AsyncIterator[Fact]:
        if AlertType.QUEUE_STUCK in self._types:
            for check in ("stuck", "unserved"):
                finding = await run_check(connection, self._settings, check, self._thresholds)
                for fact in self._stuck_queues(finding):
                    yield fact
        if AlertType.HORIZON_PINNED in self._types:
            finding = await run_check(connection, self._settings, "horizon", self._thresholds)
            for holder in finding.evidence[:1] if finding.severity != "ok" else ():
                yield Fact(AlertType.HORIZON_PINNED, _holder(holder), _holder_key(holder), finding, holder)

    def _stuck_queues(self, finding: Finding) -> list[Fact]:
        """Return one fact per stuck queue, for its oldest lane.

        The key of the fact stays the same until that lane moves.
        """
        queues: dict[str, Mapping[str, Any]] = {}
        for line in finding.evidence:
            meant = line["paused"] or line["limited"] or line["kind"].startswith(_OWN)
            if line["waited_seconds"] >= self._settings.alert_stuck_seconds and not meant:
                queues.setdefault(line["queue"], line)  # the longest waiting come first
        return [
            Fact(
                AlertType.QUEUE_STUCK,
                queue,
                f"{queue} {line['kind']} {line['since'].timestamp()}",
                finding,
                line,
            )
            for queue, line in queues.items()
        ]

    def pause(self) -> float:
        return ROUND_SECONDS


def _holder(holder: Mapping[str, Any]) -> str:
    return f"{holder['holder']} {holder['name'] or holder['pid']}"


def _holder_key(holder: Mapping[str, Any]) -> str:
    """Return the key of a fact. Replication slots and standbys have no start time, so each is one fact."""
    since = holder["since"]
    return _holder(holder) + (f" {since.timestamp()}" if since is not None else "")


def _plain(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in evidence.items()
        if value is not None and name != "query"  # the text of a query may contain any data
    }
