"""Build the jobs that triggers create: payloads from templates, and enqueue requests.

Used by keepers, by manual runs of a trigger, and by previews.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from posthouse.core.definition import KindRules, problems_with
from posthouse.core.payload import encode_payload
from posthouse.core.schedule import Schedule
from posthouse.core.template import render
from posthouse.errors import InactiveDefinition, InvalidDefinition

Fields = Mapping[str, Any]


def filled(trigger: Fields, context: Fields, rules: KindRules | None, about: Fields, limit: int) -> str:
    """Return the payload as JSON. Raises an error with the reason if the trigger cannot create a job."""
    kind = taken(trigger, rules)
    payload = encode_payload(rendered(trigger, context), limit)
    problems = problems_with(kind, payload, about)
    if problems:
        raise kind.refusal(problems)
    return payload


def taken(trigger: Fields, rules: KindRules | None) -> KindRules:
    """Return the rules of the trigger's kind. Raises if its definition does not exist or is inactive."""
    if rules is None:
        raise InvalidDefinition(f"the definition {trigger['definition_key']!r} does not exist")
    if not rules.active:
        raise InactiveDefinition(f"jobs of kind {rules.key!r} are not accepted: its definition is inactive")
    return rules


def rendered(trigger: Fields, context: Fields) -> Any:
    """Render the trigger's payload template. Raises TemplateError if a value is missing or invalid."""
    roots = {"tenant_id": trigger["tenant_id"], "trigger_id": str(trigger["id"])}
    return render(trigger["payload_template"], {**roots, **context})


def event_context(event: Fields, context: Any) -> dict[str, Any]:
    """Return the template values of an event: ``{{event.…}}``, ``{{context.…}}`` and the like."""
    return {
        "event": context,
        "event_id": str(event["id"]),
        "event_name": event["name"],
        "event_at": event["at"],
    }


def event_about(event: Fields) -> dict[str, Any]:
    """Return the correlation id and the other attributes that the job inherits from the event."""
    return {
        "tenant_id": event["tenant_id"],
        "correlation_id": event["correlation_id"] or str(event["id"]),
        "subject": event["subject"] or "",
    }


def event_request(trigger: Fields, event: Fields, payload: str) -> dict[str, Any]:
    """Return the request as posthouse.enqueue_many expects it."""
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
    """Return the template values of a schedule: ``{{schedule.…}}``."""
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
    """Return the attributes that the job gets from the schedule."""
    return {
        "tenant_id": trigger["tenant_id"],
        "correlation_id": f"{trigger['id']}@{_text(nominal)}",
        "subject": "",
    }


def schedule_request(trigger: Fields, nominal: datetime, payload: str, start: datetime) -> dict[str, Any]:
    """Return the request as posthouse.enqueue_many expects it."""
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
