"""Create alerts from what the engine recorded, and decide which ones are sent."""

from __future__ import annotations

import logging
import time

from posthouse.core.alerts import chosen_types, destinations
from posthouse.core.retry import Retry
from posthouse.settings import Settings
from posthouse.storage.alerts import PostedAlert, detect_alerts, post_alerts
from posthouse.storage.connections import ReconnectingConnection

_log = logging.getLogger("posthouse.keeper")

PATTERN_SECONDS = 10.0
"""How often failures are searched for patterns, and the pause while the agenda sees nothing new."""
BATCH = 5000
MAX_POSTED = 10
"""Maximum number of alerts of one type that are sent within a cool-down, for all subjects together."""
MORE_PAUSE = 0.05

DELIVERY_RETRY = Retry("10s", "1m", "5m", "15m", "1h")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Alerter:
    """The step that creates and sends alerts.

    Any number of keepers may run it: one searches at a time, and each occurrence creates one alert.
    """

    name = "alerter"

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings
        self._types = sorted(chosen_types(settings.alert_types))
        self._destinations = [item.name for item in destinations(settings.alert_webhook_url)]
        self._patterns_at = 0.0
        self._pause = PATTERN_SECONDS

    async def run_once(self) -> dict[str, int]:
        raised = await self._find()
        self._pause = MORE_PAUSE if raised >= BATCH else PATTERN_SECONDS
        posted = await self._post()
        for alert in posted:
            _log.log(
                _LEVELS[alert.severity], "alert %s: %s%s", alert.type, alert.message, _suppressed_note(alert),
                extra={"alert_subject": alert.subject},
            )  # fmt: skip
        return {"raised": raised, "posted": len(posted)}

    async def _find(self) -> int:
        now = time.monotonic()
        failures = self._settings.alert_pattern_failures if now >= self._patterns_at else None
        found = await self._connection.run(
            lambda c: detect_alerts(
                c,
                self._types,
                failures=failures,
                window=self._settings.alert_pattern_seconds,
                limit=BATCH,
            )
        )
        if failures is not None:
            # The more jobs failed recently, the longer the search takes, and the less often it is run.
            self._patterns_at = time.monotonic() + max(PATTERN_SECONDS, 20 * (time.monotonic() - now))
        return found or 0

    async def _post(self) -> list[PostedAlert]:
        return await self._connection.run(
            lambda c: post_alerts(
                c,
                self._types,
                self._destinations,
                cooldown=self._settings.alert_cooldown_seconds,
                limit=MAX_POSTED,
                attempts=DELIVERY_RETRY.attempts,
            )
        )

    def pause(self) -> float:
        return self._pause


def _suppressed_note(alert: PostedAlert) -> str:
    return f" (and {alert.suppressed_count:,} more)" if alert.suppressed_count else ""
