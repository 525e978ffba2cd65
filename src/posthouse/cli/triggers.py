"""posthouse triggers: create jobs on events or schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import act, read, read_at
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import (
    ListGroup,
    current_actor,
    id_of,
    json_object,
    json_option,
    number_or_name,
    options_from,
    read_object_file,
)
from posthouse.cli.output import (
    Cell,
    dim,
    first_line,
    format_age,
    format_time,
    show_fields,
    show_json,
    show_result,
    show_table,
    span,
)
from posthouse.cli.trigger_runs import fire, next_runs, outcomes

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import TriggerInfo

triggers = typer.Typer(cls=ListGroup, help="Create jobs on events or schedules.")

triggers.command("next")(next_runs)
triggers.command("fire")(fire)
triggers.command("outcomes")(outcomes)

_ID = typer.Argument(..., metavar="TRIGGER", help="Trigger id.")
_TENANT = typer.Option(None, help="Only this tenant.")
_FILE = typer.Option(None, "--file", metavar="FILE", help="JSON or TOML file with fields; - reads JSON.")
_LABEL = typer.Option(None, help="Display name.")
_EVENT = typer.Option(None, "--on", metavar="EVENT", help="Event name; * matches any part, e.g. order.*")
_CRON = typer.Option(None, "--cron", metavar="EXPR", help="Schedule: five cron fields, @daily, or every 15m.")
_ZONE = typer.Option(None, "--zone", metavar="ZONE", help="Time zone, e.g. Europe/Paris (default: UTC).")
_KIND = typer.Option(None, "--kind", metavar="KIND", help="Kind of the jobs it creates.")
_PAYLOAD = typer.Option(
    None,
    "--payload",
    metavar="JSON",
    help="Payload template; {{event.x}} is replaced by a value of the event.",
)
_WINDOW = typer.Option(None, metavar="SPAN", help="Dedupe window for equal payloads, e.g. 2m.")
_QUEUE = typer.Option(None, help="Queue of the jobs. Default: the queue of the definition.")
_PRIORITY = typer.Option(
    None, metavar="N|NAME", help="Priority: a number (lower runs first), or urgent, high, normal, low."
)
_MISSED = typer.Option(None, metavar="skip|once|catch_up", help="Policy for missed runs.")
_OVERLAP = typer.Option(None, metavar="allow|skip|queue", help="Policy while the last run is active.")
_LIMIT = typer.Option(None, metavar="N", min=1, max=1000, help="Maximum number of missed runs for catch_up.")
_GAP = typer.Option(None, metavar="next|skip", help="Policy for times skipped by daylight saving.")
_FOLD = typer.Option(None, metavar="once|twice", help="Policy for times repeated by daylight saving.")
_JITTER = typer.Option(None, metavar="SPAN", help="Maximum random delay of each run, e.g. 30s.")


@triggers.command("list")
def list_(tenant: str | None = _TENANT, as_json: bool = json_option()) -> None:
    """List triggers: event or schedule, job kind, last run, state."""
    from posthouse import insights

    found, now = read_at(lambda db, _: insights.triggers(db, tenant=tenant))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(str(item.id)),
            item.tenant_id,
            Cell(first_line(item.label, 40), "bold" if item.enabled else "dim"),
            _when(item),
            item.definition_key,
            dim(format_age(item.last_fired_at, now)),
            _state(item, now),
        )
        for item in found
    ]
    heads = ("trigger", "tenant", "label", "when", "kind", "last fired", "state")
    show_table(
        heads,
        rows,
        empty="no triggers: create one with `posthouse triggers create`",
        only_plain={"last fired"},
    )


def _when(item: TriggerInfo) -> str:
    return f"on {item.event_name}" if item.type == "event" else f"{item.cron_expr} {item.timezone}"


def _state(item: TriggerInfo, now: datetime) -> Cell:
    if not item.enabled:
        return dim("disabled")
    if item.last_error:
        return Cell(f"error: {first_line(item.last_error, 60)}", "red")
    if item.next_at is None:
        return Cell("enabled", "green")
    return Cell(f"next {format_time(item.next_at, now)}", "green", f"next {format_age(item.next_at, now)}")


@triggers.command()
def show(trigger: str = _ID, as_json: bool = json_option()) -> None:
    """Show a trigger."""
    from posthouse import insights

    wanted = id_of("trigger", trigger)

    found, now = read_at(lambda db, _: insights.get_trigger(db, wanted))
    if as_json:
        show_json(found)
    else:
        show_fields(_shown_fields(found, now))


def _shown_fields(item: TriggerInfo, now: datetime) -> list[tuple[str, str | Cell]]:
    import json
    from dataclasses import asdict

    from posthouse.core.trigger import describe_trigger

    timed: list[tuple[str, str | Cell]] = [
        (
            "missed runs",
            item.missed + (f", at most {item.catch_up_limit}" if item.missed == "catch_up" else ""),
        ),
        ("overlap", item.overlap),
        ("jitter", span(item.jitter_seconds)),
        ("gap, fold", f"{item.gap}, {item.fold}"),
        ("next", format_time(item.next_at, now)),
        ("last run", format_time(item.last_nominal_at, now)),
    ]
    return [
        ("id", str(item.id)),
        ("label", Cell(item.label, "bold")),
        ("tenant", item.tenant_id),
        ("state", _state(item, now)),
        ("when", _when(item)),
        *([("in words", describe_trigger(asdict(item)))] if item.type == "schedule" else []),
        ("kind", item.definition_key),
        ("payload", json.dumps(item.payload_template, indent=2, ensure_ascii=False)),
        ("queue", item.queue or ""),
        ("priority", "" if item.priority is None else str(item.priority)),
        *([("dedupe window", span(item.dedupe_window_seconds))] if item.type == "event" else timed),
        ("last fired", format_age(item.last_fired_at, now)),
        ("error", Cell(item.last_error or "", "red")),
        ("created", f"{format_age(item.created_at, now)} by {item.created_by}"),
        ("version", f"{item.version}, {format_age(item.updated_at, now)}"),
    ]


def _fields(
    *,
    file: str | None = _FILE,
    label: str | None = _LABEL,
    event: str | None = _EVENT,
    cron: str | None = _CRON,
    zone: str | None = _ZONE,
    kind: str | None = _KIND,
    payload: str | None = _PAYLOAD,
    window: str | None = _WINDOW,
    queue: str | None = _QUEUE,
    priority: str | None = _PRIORITY,
    missed: str | None = _MISSED,
    catch_up_limit: int | None = _LIMIT,
    gap: str | None = _GAP,
    fold: str | None = _FOLD,
    overlap: str | None = _OVERLAP,
    jitter: str | None = _JITTER,
) -> dict[str, Any]:
    """Return the fields of a trigger that options set, or a file."""
    given = {
        "label": label,
        "event_name": event,
        "cron_expr": cron,
        "timezone": zone,
        "definition_key": kind,
        "payload_template": json_object(payload) if payload is not None else None,
        "dedupe_window_seconds": window,
        "queue": queue,
        "priority": number_or_name(priority) if priority is not None else None,
        "missed": missed,
        "catch_up_limit": catch_up_limit,
        "gap": gap,
        "fold": fold,
        "overlap": overlap,
        "jitter_seconds": jitter,
    }
    return read_object_file(file) | {name: value for name, value in given.items() if value is not None}


@triggers.command()
@options_from(_fields)
def create(
    *,
    tenant: str = typer.Option("default", help="Tenant of the events and of the jobs."),
    fields: dict[str, Any],
    as_json: bool = json_option(),
) -> None:
    """Create a trigger and print its id. Audited.

    [b]Examples:[/b]

    posthouse triggers create --on folder.updated --kind sync --payload '{"id": "{{event.folder_id}}"}'

    posthouse triggers create --cron '0 2 * * *' --zone America/New_York --kind report --label Nightly
    """
    from posthouse.core.redaction import PLAIN
    from posthouse.triggers import create_trigger

    if "event_name" not in fields and "cron_expr" not in fields:
        raise UsageError("missing --on EVENT or --cron EXPR; see `posthouse triggers create --help`")
    made = read(lambda db, _: create_trigger(db, fields, actor=current_actor(), tenant=tenant))
    show_result(PLAIN.value(made), made["id"], as_json=as_json)


@triggers.command()
@options_from(_fields)
def edit(
    trigger: str = _ID,
    *,
    fields: dict[str, Any],
    as_json: bool = json_option(),
) -> None:
    """Change the given fields of a trigger. Audited.

    [b]Example:[/b]  posthouse triggers edit 01890a5d-ac96-774b-bcce-b302099a8057 --cron '0 3 * * *'
    """
    if not fields:
        raise UsageError("no changes given: pass at least one option; see `posthouse triggers edit --help`")
    _change(trigger, fields, "changed", as_json=as_json)


@triggers.command()
def enable(trigger: str = _ID, as_json: bool = json_option()) -> None:
    """Enable a trigger. A schedule continues with its next time. Audited."""
    _change(trigger, {"enabled": True}, "enabled", as_json=as_json)


@triggers.command()
def disable(trigger: str = _ID, as_json: bool = json_option()) -> None:
    """Disable a trigger: it creates no jobs until it is enabled. Audited."""
    _change(trigger, {"enabled": False}, "disabled", as_json=as_json)


@triggers.command()
def remove(trigger: str = _ID, as_json: bool = json_option()) -> None:
    """Remove a trigger. Its jobs stay. Audited."""
    from posthouse.triggers import remove_trigger

    wanted = id_of("trigger", trigger)
    act(lambda db: remove_trigger(db, wanted, actor=current_actor()), f"{wanted} removed", as_json=as_json)


def _change(trigger: str, changes: dict[str, Any], done: str, *, as_json: bool) -> None:
    from posthouse.triggers import change_trigger

    wanted = id_of("trigger", trigger)
    act(
        lambda db: change_trigger(db, wanted, changes, actor=current_actor()),
        f"{wanted} {done}",
        as_json=as_json,
    )
