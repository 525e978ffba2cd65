"""The jobs that triggers make: payloads filled in, and requests for enqueue.

For keepers, who make them, and for whoever fires a trigger by hand or wants to see what it would make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from posthouse.commands.payloads import problems_with
from posthouse.core.kind import KindRules
from posthouse.core.payload import encode_payload
from posthouse.core.schedule import Schedule
from posthouse.core.template import render
from posthouse.errors import InactiveDefinition, InvalidDefinition

Fields = Mapping[str, Any]


def filled(trigger: Fields, context: Fields, rules: KindRules | None, about: Fields, limit: int) -> str:
    """The payload as JSON; raises one of our errors that says why there is none."""
    kind = taken(trigger, rules)
    payload = encode_payload(rendered(trigger, context), limit)
    problems = problems_with(kind, payload, about)
    if problems:
        raise kind.refusal(problems)
    return payload


def taken(trigger: Fields, rules: KindRules | None) -> KindRules:
    """The rules of the kind that it makes, if jobs of that kind are taken."""
    if rules is None:
        raise InvalidDefinition(f"there is no definition {trigger['definition_key']!r} any more")
    if not rules.active:
        raise InactiveDefinition(f"jobs of kind {rules.key!r} are not taken: its definition is inactive")
    return rules


def rendered(trigger: Fields, context: Fields) -> Any:
    """Its template filled in; raises TemplateError where that cannot be."""
    roots = {"tenant_id": trigger["tenant_id"], "trigger_id": str(trigger["id"])}
    return render(trigger["payload_template"], {**roots, **context})


def event_context(event: Fields, context: Any) -> dict[str, Any]:
    """What {{event.…}} and the like in a payload template stand for."""
    return {
        "event": context,
        "event_id": str(event["id"]),
        "event_name": event["name"],
        "event_at": event["at"],
    }


def event_about(event: Fields) -> dict[str, Any]:
    """What the job belongs to."""
    return {
        "tenant_id": event["tenant_id"],
        "correlation_id": event["correlation_id"] or str(event["id"]),
        "subject": event["subject"] or "",
    }


def event_request(trigger: Fields, event: Fields, payload: str) -> dict[str, Any]:
    """The job, as posthouse.enqueue_many takes it."""
    return {
        **event_about(event),
        **_made_by(trigger, payload),
        "subject": event["subject"],
        "source": "event",
        "source_ref": str(event["id"]),
    }


def schedule_context(
    trigger: Fields, schedule: Schedule, nominal: datetime, previous: datetime | None
) -> dict[str, Any]:
    """What {{schedule.…}} in a payload template stands for."""
    local = nominal.astimezone(schedule.zone)
    return {
        "schedule": {
            "nominal_at": _text(nominal),
            "previous_at": None if previous is None else _text(previous),
            "local": local.isoformat(),
            "date": f"{local:%Y-%m-%d}",
            "time": f"{local:%H:%M}",
            "timezone": trigger["timezone"],
            "cron_expr": trigger["cron_expr"],
            "label": trigger["label"],
        }
    }


def schedule_about(trigger: Fields, nominal: datetime) -> dict[str, Any]:
    """What the job belongs to."""
    return {
        "tenant_id": trigger["tenant_id"],
        "correlation_id": f"{trigger['id']}@{_text(nominal)}",
        "subject": "",
    }


def schedule_request(trigger: Fields, nominal: datetime, payload: str, start: datetime) -> dict[str, Any]:
    """The job, as posthouse.enqueue_many takes it."""
    return {
        **_made_by(trigger, payload),
        "tenant_id": trigger["tenant_id"],
        "correlation_id": schedule_about(trigger, nominal)["correlation_id"],
        "scheduled_for": start.isoformat(),
        "order_key": f"schedule:{trigger['id']}" if trigger["overlap"] == "queue" else None,
        "source": "schedule",
        "source_ref": str(trigger["id"]),
    }


def _made_by(trigger: Fields, payload: str) -> dict[str, Any]:
    return {
        "kind": trigger["definition_key"],
        "payload": json.loads(payload),
        "queue": trigger["queue"],
        "priority": trigger["priority"],
        "created_by": f"trigger:{trigger['id']}",
    }


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
