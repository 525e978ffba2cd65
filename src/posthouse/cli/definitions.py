"""posthouse definitions: list, create and change job definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import act, read, read_at
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import (
    ListGroup,
    current_actor,
    json_object,
    json_option,
    options_from,
    read_object_file,
)
from posthouse.cli.output import (
    Cell,
    dim,
    first_line,
    format_age,
    print_line,
    show_fields,
    show_json,
    show_result,
    show_table,
    span,
)

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import DefinitionInfo

definitions = typer.Typer(cls=ListGroup, help="List job definitions; create, change and check them.")

_KEY = typer.Argument(..., metavar="KEY", help="Job kind.")
_KEYS = typer.Argument(..., metavar="KEY...", help="Job kinds.")
_FILE = typer.Option(None, "--file", metavar="FILE", help="JSON or TOML file with fields; - reads JSON.")
_COMMAND = typer.Option(
    None,
    "--command",
    metavar="JSON",
    help="Command: a list of arguments, or an object with all command fields.",
)
_DESCRIPTION = typer.Option(None, help="Description.")
_QUEUE = typer.Option(None, help="Default queue of its jobs.")
_PRIORITY = typer.Option(
    None,
    metavar="N|NAME",
    help="Default priority: a number (lower runs first), or urgent, high, normal, low.",
)
_ATTEMPTS = typer.Option(None, metavar="N", help="Maximum number of attempts.")
_TIMEOUT = typer.Option(None, metavar="SPAN", help="Maximum run time of an attempt, e.g. 30s, 5m.")
_RETRY = typer.Option(None, metavar="SPANS", help="Delays between attempts, e.g. 1m,5m,15m.")
_SCHEMA = typer.Option(None, metavar="FILE", help="JSON Schema file for payloads; - reads stdin.")
_REDACT = typer.Option([], metavar="PATH", help="Payload field to mask; repeatable.")
_REQUIRES = typer.Option([], metavar="NAME", help="Required worker capability; repeatable.")
_PREFERS = typer.Option([], metavar="NAME", help="Preferred worker capability; repeatable.")
_FOLLOWUP_QUEUES = typer.Option(
    [],
    "--followup-queue",
    metavar="QUEUE",
    help="Queue that follow-ups may use even if the worker's key does not serve it; repeatable.",
)


@definitions.command("list")
def list_(as_json: bool = json_option()) -> None:
    """List job definitions announced by workers or created by operators."""
    from posthouse import insights

    found = read(lambda db, known: insights.definitions(db, offline_after=known.offline_after))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(item.key, "bold" if item.active else "dim"),
            item.queue,
            str(item.priority),
            str(item.max_attempts),
            span(item.timeout_seconds),
            Cell(str(item.workers), "" if item.workers else "yellow"),
            dim(first_line(_note(item), 60)),
        )
        for item in found
    ]
    heads = ("kind", "queue", "priority", "attempts", "timeout", "workers", "description")
    empty = "no definitions yet: workers announce theirs when they start"
    show_table(heads, rows, empty=empty, right=("priority", "attempts", "timeout", "workers"))


def _note(item: DefinitionInfo) -> str:
    state = "" if item.active else "(inactive) "
    return state + (item.description.partition("\n")[0] or ("command" if item.command else ""))


@definitions.command()
def show(key: str = _KEY, as_json: bool = json_option()) -> None:
    """Show a definition, and which fields an operator overrode."""
    from posthouse import insights

    found, now = read_at(
        lambda db, known: insights.get_definition(db, key, offline_after=known.offline_after)
    )
    if as_json:
        show_json(found)
    else:
        show_fields(_shown_fields(found, now))


def _shown_fields(item: DefinitionInfo, now: datetime) -> list[tuple[str, str | Cell]]:
    return [
        ("key", Cell(item.key, "bold")),
        (
            "state",
            Cell("active", "green") if item.active else Cell("inactive: new jobs are rejected", "bold red"),
        ),
        ("description", item.description),
        ("runner", f"{item.runner}, from {item.origin}"),
        ("command", _json(item.command)),
        ("queue", f"{item.queue}, priority {item.priority}"),
        ("attempts", str(item.max_attempts)),
        ("retry", _json(item.retry)),
        ("timeout", span(item.timeout_seconds)),
        ("limits", _json(item.limits)),
        ("requires", ", ".join(item.requires)),
        ("prefers", ", ".join(item.prefers)),
        ("followup queues", ", ".join(item.followup_queues)),
        ("redact", ", ".join(item.redact)),
        ("schema", _json(item.schema or None)),
        ("overridden", ", ".join(item.overridden)),
        ("version", f"{item.version}, {format_age(item.updated_at, now)}"),
        ("workers", str(item.workers)),
    ]


def _json(value: Any) -> str:
    import json

    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _fields(
    *,
    file: str | None = _FILE,
    command: str | None = _COMMAND,
    description: str | None = _DESCRIPTION,
    queue: str | None = _QUEUE,
    priority: str | None = _PRIORITY,
    max_attempts: int | None = _ATTEMPTS,
    timeout: str | None = _TIMEOUT,
    retry: str | None = _RETRY,
    schema: str | None = _SCHEMA,
    redact: list[str] = _REDACT,
    requires: list[str] = _REQUIRES,
    prefers: list[str] = _PREFERS,
    followup_queue: list[str] = _FOLLOWUP_QUEUES,
) -> dict[str, Any]:
    """Return the fields of a definition that options set, or a file."""
    given = {
        "command": _command(command) if command else None,
        "description": description,
        "queue": queue,
        "priority": int(priority) if priority and priority.removeprefix("-").isdecimal() else priority,
        "max_attempts": max_attempts,
        "timeout_seconds": timeout,
        "retry": {"ladder": [rung.strip() for rung in retry.split(",")]} if retry else None,
        "schema": read_object_file(schema) if schema else None,
        "redact": redact or None,
        "requires": requires or None,
        "prefers": prefers or None,
        "followup_queues": followup_queue or None,
    }
    return read_object_file(file) | {name: value for name, value in given.items() if value is not None}


@definitions.command()
@options_from(_fields)
def create(
    key: str = _KEY,
    argv: list[str] = typer.Argument(
        None, metavar="[-- ARGV...]", help="Command template: program and arguments."
    ),
    *,
    fields: dict[str, Any],
    as_json: bool = json_option(),
) -> None:
    """Create a command definition: a kind of job that runs a program. Audited.

    [b]Examples:[/b]

    posthouse definitions create thumbnail --timeout 5m -- convert '{payload.source}' '{payload.target}'

    posthouse definitions create sync --command '["sync", "--all", ["--prefix", "{payload.prefix?}"]]'

    posthouse definitions create thumbnail --file thumbnail.toml
    """
    from posthouse.definitions import create_definition

    if argv:
        fields["command"] = {**fields.get("command", {}), "argv": list(argv)}
    act(
        lambda db: create_definition(db, key, fields, actor=current_actor()),
        f"{key} created",
        as_json=as_json,
    )


@definitions.command()
@options_from(_fields)
def edit(
    key: str = _KEY,
    *,
    fields: dict[str, Any],
    clear: list[str] = typer.Option(
        [], metavar="FIELD", help="Field to reset to the code default; repeatable."
    ),
    as_json: bool = json_option(),
) -> None:
    """Override fields of a definition. Overrides win over the code until they are cleared. Audited.

    [b]Examples:[/b]

    posthouse definitions edit welcome --timeout 10m --retry 1m,5m

    posthouse definitions edit welcome --clear timeout_seconds
    """
    from posthouse.definitions import change_definition

    if not fields and not clear:
        raise UsageError(
            "no changes given: pass at least one option; see `posthouse definitions edit --help`"
        )
    act(
        lambda db: change_definition(db, key, fields, clear=clear, actor=current_actor()),
        f"{key} changed",
        as_json=as_json,
    )


@definitions.command()
def activate(keys: list[str] = _KEYS, as_json: bool = json_option()) -> None:
    """Accept new jobs of these kinds again. Audited."""
    _switch(keys, active=True, as_json=as_json)


@definitions.command()
def deactivate(keys: list[str] = _KEYS, as_json: bool = json_option()) -> None:
    """Reject new jobs of these kinds. Queued jobs still run. Audited."""
    _switch(keys, active=False, as_json=as_json)


def _switch(keys: list[str], *, active: bool, as_json: bool) -> None:
    from posthouse.definitions import change_definition

    async def work(db: Any) -> list[dict[str, Any]]:
        return [await change_definition(db, key, {"active": active}, actor=current_actor()) for key in keys]

    act(work, f"{', '.join(keys)} {'active' if active else 'inactive'}", as_json=as_json)


@definitions.command()
def remove(
    key: str = _KEY,
    force: bool = typer.Option(
        False, "--force", help="Remove it even if jobs of this kind are queued or running."
    ),
    as_json: bool = json_option(),
) -> None:
    """Remove a definition. A worker with this kind announces it again on start. Audited."""
    from posthouse.definitions import remove_definition

    act(
        lambda db: remove_definition(db, key, actor=current_actor(), force=force),
        f"{key} removed",
        as_json=as_json,
    )


@definitions.command()
def check(
    key: str = _KEY,
    payload: str = typer.Option("{}", metavar="JSON", help="Payload to test; - reads stdin."),
    as_json: bool = json_option(),
) -> None:
    """Validate a payload against a definition. Enqueues nothing."""
    from posthouse.definitions import validate_payload

    value = json_object(payload)
    errors = read(lambda db, known: validate_payload(db, key, value, payload_limit=known.max_payload_bytes))
    if as_json:
        show_json({"valid": not errors, "errors": errors})
    elif not errors:
        print_line(f"valid payload for {key}")
    for error in errors if not as_json else ():
        typer.echo(error, err=True)
    if errors:
        raise typer.Exit(1)


@definitions.command()
def preview(
    key: str = _KEY,
    *,
    payload: str = typer.Option("{}", metavar="JSON", help="Payload to test; - reads stdin."),
    tenant: str = typer.Option("default", help="Tenant of the job."),
    correlation: str | None = typer.Option(None, metavar="ID", help="Correlation id of the job."),
    subject: str | None = typer.Option(None, help="Subject of the job."),
    as_json: bool = json_option(),
) -> None:
    """Print the command that a job would run, quoted for a shell. Runs nothing.

    [b]Example:[/b]  posthouse definitions preview thumbnail --payload '{"source": "a.png"}' --json
    """
    import shlex

    from posthouse.core.command.template import TemplateValues
    from posthouse.definitions import preview_command

    value = json_object(payload)
    values = TemplateValues(tenant_id=tenant, correlation_id=correlation, subject=subject)
    found = read(
        lambda db, known: preview_command(db, key, value, values, payload_limit=known.max_payload_bytes)
    )
    show_result(found, shlex.join(found.argv), as_json=as_json)


def _command(text: str) -> dict[str, Any]:
    """Parse a command: an object, or a list of arguments."""
    import json

    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--command is not valid JSON: {error}; quote it for the shell") from None
    if isinstance(value, list):
        return {"argv": value}
    if not isinstance(value, dict):
        raise UsageError('--command must be a JSON list like ["convert", "{payload.file}"] or an object')
    return value
