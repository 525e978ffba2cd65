"""Creates jobs from events: one for each matching trigger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from posthouse.core.definition import KindRules
from posthouse.errors import PosthouseError
from posthouse.keeper.service import SELDOM_SECONDS
from posthouse.settings import Settings
from posthouse.storage.connections import Line
from posthouse.storage.definitions import rules_of
from posthouse.storage.queries import Db
from posthouse.storage.triggers import Taken, events_waiting, match_events, take_events
from posthouse.trigger_jobs import event_about, event_context, event_request, filled

BATCH = 100
"""Few at a time: those that promote jobs and run schedules share the line."""


class Matcher:
    name = "matcher"

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line = line
        self._payload_limit = settings.max_payload_bytes
        self._more = False

    async def run_once(self) -> dict[str, int]:
        return await self._line.run(self._match)

    def pause(self) -> float:
        return 0.0 if self._more else SELDOM_SECONDS

    async def _match(self, connection: Db) -> dict[str, int]:
        self._more = False
        if not await events_waiting(connection):
            return {"fired": 0, "deduped": 0, "errors": 0}
        async with connection.transaction():
            taken = await take_events(connection, BATCH)
            self._more = len(taken) == BATCH
            if not taken:
                return {"fired": 0, "deduped": 0, "errors": 0}
            keys = {trigger["definition_key"] for item in taken for trigger in item.triggers}
            rules = {item.key: item for item in await rules_of(connection, sorted(keys))} if keys else {}
            results = [self._result(item, trigger, rules) for item in taken for trigger in item.triggers]
            return await match_events(connection, [item.event["id"] for item in taken], results)

    def _result(
        self, taken: Taken, trigger: Mapping[str, Any], rules: Mapping[str, KindRules]
    ) -> dict[str, Any]:
        event = taken.event
        result = {
            "event_id": event["id"],
            "trigger_id": trigger["id"],
            "replay": event["replay"],
            "event_at": event["at"],
            "tenant_id": event["tenant_id"],
            "dedupe_window": 0 if event["replay"] else trigger["dedupe_window_seconds"],
        }
        try:
            kind = rules.get(trigger["definition_key"])
            context = event_context(event, from_json(taken.context or "{}"))
            payload = filled(trigger, context, kind, event_about(event), self._payload_limit)
        except (PosthouseError, ValueError) as error:  # ValueError: the context is no JSON that we can read
            return {**result, "error": f"{error}"}
        request = event_request(trigger, event, payload)
        return {**result, "content": _digest(payload), "request": request}


def _digest(payload: str) -> str:
    """Return a digest that is equal for equal payloads."""
    canonical = json.dumps(json.loads(payload), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
