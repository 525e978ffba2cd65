"""Alerts, what became of them, and how many there were."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.alerts import AlertType
from posthouse.errors import InvalidJob
from posthouse.insights.masking import WITHOUT_JOB
from posthouse.storage.reading import Db, fetch

MOST_ALERTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """Which alerts to list. ``within``: only those of the last so many seconds; ``before``: those older than
    this time and id.
    """

    type: str | None = None
    tenant: str | None = None
    within: float | None = None
    before: tuple[datetime, UUID] | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        if self.type is not None and self.type not in list(AlertType):
            raise InvalidJob(f"there is no type {self.type!r}; choose from {', '.join(AlertType)}")
        if not 1 <= self.limit <= MOST_ALERTS:
            raise InvalidJob(f"limit is from 1 to {MOST_ALERTS:,}, not {self.limit:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertInfo:
    """An alert. Its ``state``: new, told, held (back while its subject cools down; ``held_back`` counts it in
    the next one that is told) or off. ``deliveries``: each destination with the state of its message.
    """

    id: UUID
    at: datetime
    type: str
    severity: str
    tenant_id: str | None
    subject: str
    message: str
    details: dict[str, Any]
    state: str
    told_at: datetime | None
    held_back: int
    deliveries: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCount:
    """Of one type, since the beginning: alerts raised; those of them that were suppressed, that is told as a
    number only; messages that destinations took, and those that they never did.
    """

    type: str
    severity: str
    raised: int
    suppressed: int
    sent: int
    failed: int


async def list_alerts(connection: Db, chosen: AlertFilter | None = None) -> list[AlertInfo]:
    """Newest first. Secrets are masked."""
    values = asdict(chosen or AlertFilter())
    values["before_at"], values["before_id"] = values.pop("before") or (None, None)
    found = await fetch(connection, "alerts_list", AlertInfo, **values)
    return [WITHOUT_JOB.of(alert) for alert in found]


async def alert_counts(connection: Db) -> list[AlertCount]:
    return await fetch(connection, "alert_counts", AlertCount)
