"""Alerts, their delivery, and their counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from posthouse.core.alerts import AlertType
from posthouse.errors import InvalidJob
from posthouse.insights.masking import DEFAULT_MASK
from posthouse.storage.queries import Db, fetch

MAX_ALERTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """A filter for alerts.

    ``within``: only alerts of the last seconds; ``before``: only alerts older than this time and id.
    """

    type: str | None = None
    tenant: str | None = None
    within: float | None = None
    before: tuple[datetime, UUID] | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        if self.type is not None and self.type not in list(AlertType):
            raise InvalidJob(f"unknown alert type {self.type!r}; choose from {', '.join(AlertType)}")
        if not 1 <= self.limit <= MAX_ALERTS:
            raise InvalidJob(f"limit must be between 1 and {MAX_ALERTS:,}, not {self.limit:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertInfo:
    """An alert.

    ``state``: new, posted, suppressed (in the cool-down of its subject; counted in ``suppressed_count``
    of the next one posted) or disabled. ``deliveries``: the state of the message by destination.
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
    posted_at: datetime | None
    suppressed_count: int
    deliveries: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCount:
    """Totals of one alert type.

    They count the alerts raised, the alerts suppressed (sent as a count only), the messages sent, and the
    messages that failed.
    """

    type: str
    severity: str
    raised: int
    suppressed: int
    sent: int
    failed: int


async def list_alerts(connection: Db, chosen: AlertFilter | None = None) -> list[AlertInfo]:
    """Return the alerts, newest first, with secrets masked."""
    values = asdict(chosen or AlertFilter())
    values["before_at"], values["before_id"] = values.pop("before") or (None, None)
    found = await fetch(connection, "alerts_list", AlertInfo, **values)
    return [DEFAULT_MASK.of(alert) for alert in found]


async def alert_counts(connection: Db) -> list[AlertCount]:
    return await fetch(connection, "alert_counts", AlertCount)
