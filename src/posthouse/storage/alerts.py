"""Statements of the alerter, the doctor's checks and the delivery of alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from posthouse.storage.queries import Db, call, fetch, fetch_value


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedAlert:
    """An alert that was just sent."""

    type: str
    severity: str
    tenant_id: str | None
    subject: str
    message: str
    suppressed_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of an alert to a destination."""

    destination: str
    id: UUID
    at: datetime
    type: str
    severity: str
    tenant_id: str | None
    subject: str
    message: str
    details: dict[str, Any]
    suppressed_count: int


async def detect_alerts(
    connection: Db, types: Sequence[str], *, failures: int | None, window: float, limit: int
) -> int | None:
    """Find alerts and return how many are new; None while another keeper searches.

    Without ``failures``, failure patterns are not detected.
    """
    found = await call(
        connection, "detect_alerts", types=list(types), failures=failures, window=window, limit=limit
    )
    return None if found is None else int(found)


async def post_alerts(
    connection: Db,
    types: Sequence[str],
    destinations: Sequence[str],
    *,
    cooldown: float,
    limit: int,
    attempts: int,
) -> list[PostedAlert]:
    return await fetch(
        connection,
        "alerts_post",
        PostedAlert,
        types=list(types),
        destinations=list(destinations),
        cooldown=cooldown,
        limit=limit,
        attempts=attempts,
    )


async def raise_alert(
    connection: Db,
    alert_type: str,
    *,
    subject: str,
    message: str,
    details: Mapping[str, Any],
    dedupe_key: str,
    tenant: str | None = None,
) -> bool:
    """Raise an alert. Returns False if there is an alert with the dedupe key."""
    return bool(
        await call(
            connection,
            "raise_alert",
            type=alert_type,
            tenant=tenant,
            subject=subject,
            message=message,
            details=Jsonb(dict(details)),
            dedupe_key=dedupe_key,
        )
    )


async def get_delivery(connection: Db, job_id: UUID) -> Delivery | None:
    found = await fetch(connection, "alert_delivery", Delivery, job_id=job_id)
    return found[0] if found else None


async def has_system_work(connection: Db, queue: str, capabilities: Sequence[str]) -> bool:
    return bool(
        await fetch_value(connection, "system_queue_has_work", queue=queue, capabilities=list(capabilities))
    )
