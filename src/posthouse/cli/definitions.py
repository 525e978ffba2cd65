"""posthouse definitions: what kinds of job there are; create commands, change and check definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.inputs import file_object, json_object
from posthouse.cli.options import WrongUsage, caller, json_option
from posthouse.cli.output import Cell, ago, dim, first_line, say, show_fields, show_json, show_table, span
from posthouse.cli.session import act

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import DefinitionInfo

definitions = typer.Typer(
    invoke_without_command=True, help="Kinds of job: look at them, create commands, change and check them."
)

_KEY = typer.Argument(..., metavar="KEY", help="The kind's name.")
_KEYS = typer.Argument(..., metavar="KEY...", help="Names of kinds.")
_FILE = typer.Option(None, "--file", metavar="FILE", help="Fields from a JSON or TOML file; - reads JSON.")
_COMMAND = typer.Option(
    None, "--command", metavar="JSON", help="The command: a list of arguments, or an object with all of it."
)
_DESCRIPTION = typer.Option(None, help="What it does.")
_QUEUE = typer.Option(None, help="Where its jobs wait unless the caller says otherwise.")
_PRIORITY = typer.Option(None, metavar="N|NAME", help="A number, lower first, or urgent, high, normal, low.")
_ATTEMPTS = typer.Option(None, metavar="N", help="How often it is tried.")
_TIMEOUT = typer.Option(None, metavar="SPAN", help="How long it may run: 30s, 5m.")
_RETRY = typer.Option(None, metavar="SPANS", help="Delays between attempts: 1m,5m,15m.")
_SCHEMA = typer.Option(None, metavar="FILE", help="A JSON Schema that payloads must fit; - reads stdin.")
_REDACT = typer.Option(
    [], metavar="PATH", help="A place in the payload that nobody is to see; several times."
)
_REQUIRES = typer.Option([], metavar="NAME", help="A capability that its workers must have; several times.")
_PREFERS = typer.Option([], metavar="NAME", help="A capability that they had better have; several times.")


@definitions.callback()
def list_unless_told(context: typer.Context, as_json: bool = json_option()) -> None:
    """Kinds of job: look at them, create commands, change and check them. Alone it lists them."""
    if context.invoked_subcommand is None:
        _list(as_json=as_json)


@definitions.command("list")
def list_(as_json: bool = json_option()) -> None:
    """List the kinds of job that workers have announced and that operators have created."""
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    from posthouse import insights
    from posthouse.cli.session import read

    found = read(lambda db, known: insights.definitions(db, offline_after=known.lease_seconds))
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
    heads = ("kind", "queue", "priority", "attempts", "timeout", "workers", "what it does")
    empty = "no kind is known yet: workers announce theirs when they start"
    show_table(heads, rows, empty=empty, right=("priority", "attempts", "timeout", "workers"))


def _note(item: DefinitionInfo) -> str:
    state = "" if item.active else "(inactive) "
    return state + (item.description.partition("\n")[0] or ("a command" if item.command else ""))


@definitions.command()
def show(key: str = _KEY, as_json: bool = json_option()) -> None:
    """Show all of one definition, and which fields an operator set."""
    from posthouse import insights
    from posthouse.cli.session import read

    async def look(db: Any, known: Any) -> tuple[DefinitionInfo, datetime]:
        found = await insights.get_definition(db, key, offline_after=known.lease_seconds)
        return found, await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
    else:
        show_fields(_fields(found, now))


def _fields(item: DefinitionInfo, now: datetime) -> list[tuple[str, str | Cell]]:
    return [
        ("key", Cell(item.key, "bold")),
        ("state", Cell("active", "green") if item.active else Cell("inactive: takes no jobs", "bold red")),
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
        ("redact", ", ".join(item.redact)),
        ("schema", _json(item.schema or None)),
        ("set by hand", ", ".join(item.overridden)),
        ("version", f"{item.version}, {ago(item.updated_at, now)}"),
        ("workers", str(item.workers)),
    ]


def _json(value: Any) -> str:
    import json

    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


@definitions.command()
def create(
    key: str = _KEY,
    argv: list[str] = typer.Argument(None, metavar="[-- ARGV...]", help="The command, as a template."),
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
    as_json: bool = json_option(),
) -> None:
    """Create a command: a kind of job that runs a program. Audited.

    [b]Examples:[/b]

    posthouse definitions create thumbnail --timeout 5m -- convert '{payload.source}' '{payload.target}'

    posthouse definitions create sync --command '["sync", "--all", ["--prefix", "{payload.prefix?}"]]'

    posthouse definitions create thumbnail --file thumbnail.toml
    """
    from posthouse.definitions import create_definition

    fields = file_object(file) | _given(
        command=command,
        description=description,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        timeout=timeout,
        retry=retry,
        schema=schema,
        redact=redact,
        requires=requires,
        prefers=prefers,
    )
    if argv:
        fields["command"] = {**fields.get("command", {}), "argv": list(argv)}
    act(lambda db: create_definition(db, key, fields, actor=caller()), f"{key} created", as_json=as_json)


@definitions.command()
def edit(
    key: str = _KEY,
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
    clear: list[str] = typer.Option(
        [], metavar="FIELD", help="Give a field back to the code, or to its default; several times."
    ),
    as_json: bool = json_option(),
) -> None:
    """Change a definition. What is set here wins over what the code says, until it is cleared. Audited.

    [b]Examples:[/b]

    posthouse definitions edit welcome --timeout 10m --retry 1m,5m

    posthouse definitions edit welcome --clear timeout_seconds
    """
    from posthouse.definitions import change_definition

    changes = file_object(file) | _given(
        command=command,
        description=description,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        timeout=timeout,
        retry=retry,
        schema=schema,
        redact=redact,
        requires=requires,
        prefers=prefers,
    )
    if not changes and not clear:
        raise WrongUsage(f"nothing to change; see `posthouse definitions show {key}` and --help")
    act(
        lambda db: change_definition(db, key, changes, clear=clear, actor=caller()),
        f"{key} changed",
        as_json=as_json,
    )


@definitions.command()
def activate(keys: list[str] = _KEYS, as_json: bool = json_option()) -> None:
    """Take jobs of these kinds again. Audited."""
    _switch(keys, active=True, as_json=as_json)


@definitions.command()
def deactivate(keys: list[str] = _KEYS, as_json: bool = json_option()) -> None:
    """Refuse new jobs of these kinds. Those that are queued stay, and run. Audited."""
    _switch(keys, active=False, as_json=as_json)


def _switch(keys: list[str], *, active: bool, as_json: bool) -> None:
    from posthouse.definitions import change_definition

    async def work(db: Any) -> list[dict[str, Any]]:
        return [await change_definition(db, key, {"active": active}, actor=caller()) for key in keys]

    act(work, f"{', '.join(keys)} {'active' if active else 'inactive'}", as_json=as_json)


@definitions.command()
def remove(
    key: str = _KEY,
    force: bool = typer.Option(False, "--force", help="Also while jobs of this kind are queued or running."),
    as_json: bool = json_option(),
) -> None:
    """Remove a definition. A worker that knows the kind announces it again when it starts. Audited."""
    from posthouse.definitions import remove_definition

    act(lambda db: remove_definition(db, key, actor=caller(), force=force), f"{key} removed", as_json=as_json)


@definitions.command()
def check(
    key: str = _KEY,
    payload: str = typer.Option("{}", metavar="JSON", help="The payload to try; - reads stdin."),
    as_json: bool = json_option(),
) -> None:
    """Say whether a payload fits, and what is wrong with it. Enqueues nothing."""
    from posthouse.cli.session import read
    from posthouse.definitions import payload_problems

    value = json_object(payload)
    problems = read(lambda db, known: payload_problems(db, key, value, payload_limit=known.max_payload_bytes))
    if as_json:
        show_json({"valid": not problems, "problems": problems})
    elif not problems:
        say(f"{key} takes this payload")
    for problem in problems if not as_json else ():
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(1)


@definitions.command()
def preview(
    key: str = _KEY,
    *,
    payload: str = typer.Option("{}", metavar="JSON", help="The payload to try; - reads stdin."),
    tenant: str = typer.Option("default", help="On whose behalf."),
    correlation: str | None = typer.Option(None, metavar="ID", help="What it belongs to."),
    subject: str | None = typer.Option(None, help="What it is about."),
    as_json: bool = json_option(),
) -> None:
    """Print the exact command that a job would run, quoted as a shell would need it. Runs nothing.

    [b]Example:[/b]  posthouse definitions preview thumbnail --payload '{"source": "a.png"}' --json
    """
    import shlex

    from posthouse.cli.session import read
    from posthouse.definitions import preview_command

    value = json_object(payload)
    about = {"tenant_id": tenant, "correlation_id": correlation, "subject": subject}
    found = read(
        lambda db, known: preview_command(db, key, value, about, payload_limit=known.max_payload_bytes)
    )
    if as_json:
        show_json(found)
    else:
        say(shlex.join(found.argv))


def _given(
    *,
    command: str | None,
    description: str | None,
    queue: str | None,
    priority: str | None,
    max_attempts: int | None,
    timeout: str | None,
    retry: str | None,
    schema: str | None,
    redact: list[str],
    requires: list[str],
    prefers: list[str],
) -> dict[str, Any]:
    """The fields that flags set."""
    fields = {
        "command": _command(command) if command else None,
        "description": description,
        "queue": queue,
        "priority": int(priority) if priority and priority.removeprefix("-").isdecimal() else priority,
        "max_attempts": max_attempts,
        "timeout_seconds": timeout,
        "retry": {"ladder": [rung.strip() for rung in retry.split(",")]} if retry else None,
        "schema": file_object(schema) if schema else None,
        "redact": redact or None,
        "requires": requires or None,
        "prefers": prefers or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _command(text: str) -> dict[str, Any]:
    """A whole command, or the arguments alone."""
    import json

    try:
        value = json.loads(text)
    except ValueError as error:
        raise WrongUsage(f"--command is not JSON: {error}; quote it for the shell") from None
    if isinstance(value, list):
        return {"argv": value}
    if not isinstance(value, dict):
        raise WrongUsage('--command is a JSON list like ["convert", "{payload.file}"], or an object')
    return value
