"""A trigger that is being edited: the valid fields, and the errors of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from posthouse.core.definition import KindRules
from posthouse.core.schedule import zone_named
from posthouse.core.schema import Fault
from posthouse.core.trigger import SCHEDULE_FIELDS, checked_trigger, missing_fields, schedule_of
from posthouse.errors import InvalidSchedule, InvalidTrigger
from posthouse.storage.definitions import rules_of
from posthouse.storage.queries import Db

_NOT_YET = UUID(int=0)
"""The id of a trigger that is not stored."""
_OWN = "posthouse."
_ORDINARY: dict[str, Any] = {
    "label": "",
    "payload_template": {},
    "timezone": "UTC",
    "queue": None,
    "priority": None,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft. ``rules`` is the definition of its kind; None if it does not exist or no kind is set yet."""

    trigger: dict[str, Any]
    errors: list[Fault]
    rules: KindRules | None

    @property
    def of_events(self) -> bool:
        return bool(self.trigger["type"] == "event")

    def has(self, *names: str) -> bool:
        """Whether these fields are valid."""
        return not {fault.path for fault in self.errors} & set(names)


async def read_draft(
    connection: Db, fields: Mapping[str, Any], stored: Mapping[str, Any] | None, tenant: str
) -> Draft:
    type_ = stored["type"] if stored else _type_of(fields)
    given, errors = _checked(fields, type_)
    base = stored or {**_ORDINARY, "id": _NOT_YET, "tenant_id": tenant}
    trigger = {**base, **given, "type": type_}
    wrong = {fault.path for fault in errors}
    missing = [name for name in missing_fields(trigger, type_) if name not in wrong]
    errors += [Fault(name, f"required for {type_} triggers") for name in missing]
    if type_ == "schedule" and not SCHEDULE_FIELDS & {fault.path for fault in errors}:
        errors += _schedule_faults(trigger)
    rules = await _rules(connection, trigger.get("definition_key"))
    return Draft(trigger, errors + _kind_faults(trigger, rules), rules)


def _type_of(fields: Mapping[str, Any]) -> str:
    return str(fields.get("trigger_type") or ("event" if "event_name" in fields else "schedule"))


def _checked(fields: Mapping[str, Any], type_: str) -> tuple[dict[str, Any], list[Fault]]:
    """Return the valid fields as stored and the errors of the others, each checked separately."""
    given: dict[str, Any] = {}
    faults = []
    for name, value in fields.items():
        try:
            given.update(checked_trigger({name: value}, type_))
        except InvalidTrigger as error:
            text = str(error).removeprefix(f"trigger.{name}: ").removeprefix("trigger: ")
            faults.append(Fault(name, text))
    return given, faults


def _schedule_faults(trigger: Mapping[str, Any]) -> list[Fault]:
    name = "timezone"
    try:
        zone_named(trigger["timezone"])
        name = "cron_expr"
        schedule_of(trigger)
    except InvalidSchedule as error:
        return [Fault(name, str(error))]
    return []


async def _rules(connection: Db, key: str | None) -> KindRules | None:
    found = await rules_of(connection, [key]) if key and not key.startswith(_OWN) else []
    return found[0] if found else None


def _kind_faults(trigger: Mapping[str, Any], rules: KindRules | None) -> list[Fault]:
    key = trigger.get("definition_key")
    if key and rules is None:
        return [Fault("definition_key", f"definition {key!r} does not exist")]
    if rules is not None and not rules.active:
        return [Fault("definition_key", f"jobs of kind {key!r} are not accepted: its definition is inactive")]
    return []
