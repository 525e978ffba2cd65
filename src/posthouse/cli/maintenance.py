"""Commands for the schema, the settings and the health of an installation, and the glossary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import checked_url, read
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import app_option, current_actor, json_option
from posthouse.cli.output import (
    STATUS_STYLES,
    Cell,
    count,
    dim,
    format_age,
    print_line,
    show_json,
    show_table,
)
from posthouse.errors import ConfigurationError


def migrate(app: list[str] = app_option(), as_json: bool = json_option()) -> None:
    """Migrate the database schema to the current version. Safe to run at any time and concurrently.

    With --app, also the tables of the applications.

    [b]Examples:[/b]

    POSTHOUSE_DATABASE_URL=postgresql://app@db/app posthouse migrate

    posthouse migrate --app shop.jobs:app
    """
    from posthouse.cli.apps import load_apps, resolve_app_paths
    from posthouse.settings import load_settings
    from posthouse.storage.connections import connect_sync
    from posthouse.storage.errors import translate_errors
    from posthouse.storage.migrations import check_tenant_isolation, schema_version
    from posthouse.storage.migrations import migrate as apply

    settings = load_settings()
    url = checked_url(settings, check_schema=False)
    with translate_errors(), connect_sync(url, "migrate") as connection:
        applied = apply(connection)
        version = schema_version(connection).number
        try:
            check_tenant_isolation(connection)
        except ConfigurationError as error:  # jobs run without it
            print_line(f"warning: {error}", err=True, style="yellow")
    for loaded in load_apps(resolve_app_paths(app, settings)).values():
        loaded.migrate()
    if as_json:
        done = [{"number": item.number, "name": item.name} for item in applied]
        show_json({"version": version, "applied": done})
        return
    for item in applied:
        print_line(f"applied {item.number:04} {item.name}", style="green")
    print_line(f"schema version {version:04}" + ("" if applied else ": up to date, nothing to do"))


if TYPE_CHECKING:
    from posthouse.insights.doctor import Finding, Severity

_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


def doctor(
    as_json: bool = json_option(),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Show only warnings and errors."),
) -> None:
    """Check the database, workers and queues, and explain each problem and its fix.

    Exits with 1 if there is an error, for use in deployment scripts.

    [b]Example:[/b]  posthouse doctor --json | jq '.findings[] | select(.severity != "ok")'
    """
    import asyncio

    from posthouse.insights.doctor import report, run_checks
    from posthouse.settings import load_settings
    from posthouse.storage.database import database_url

    settings = load_settings()
    found = report(asyncio.run(run_checks(database_url(settings), settings)))
    if as_json:
        show_json(found)
    else:
        _show(found.findings, found.counts, quiet=quiet)
    if not found.healthy:
        raise typer.Exit(1)


def _show(findings: list[Finding], counts: dict[Severity, int], *, quiet: bool) -> None:
    width = max(len(item.check) for item in findings)
    for item in findings:
        if item.severity == "ok" and quiet:
            continue
        print_line(
            f"{_MARKS[item.severity]} {item.check:<{width}}  ", style=STATUS_STYLES[item.severity], end=""
        )
        print_line(item.summary, style="dim" if item.severity == "ok" else "bold")
        for text in (item.meaning, item.advice):
            if text:
                print_line(f"{'':<{width}}    {text}")
    print_line(f"{counts['ok']} ok, {counts['warning']} warning(s), {counts['error']} error(s)")


config = typer.Typer(invoke_without_command=True)

_SOURCE_STYLES = {"flag": "green", "environment": "green", "file": "cyan", "default": "dim"}


@config.callback()
def show_by_default(context: typer.Context, as_json: bool = json_option()) -> None:
    """Show the settings in effect and the source of each; secrets are masked.

    Precedence, highest first: flags, environment variables (POSTHOUSE_...), posthouse.toml in the current
    folder, defaults.

    [b]Examples:[/b]

    POSTHOUSE_CONCURRENCY=20 posthouse config

    pg_dump "$(posthouse config database-url)"
    """
    if context.invoked_subcommand is None:
        _show_settings(as_json=as_json)


def _show_settings(*, as_json: bool) -> None:
    from posthouse.insights.administration import settings_in_effect
    from posthouse.settings import load_settings

    found = settings_in_effect(load_settings())
    if as_json:
        show_json({item.name: {"value": item.value, "source": item.source} for item in found})
        return
    rows = [
        (
            Cell(item.variable, "bold" if item.source != "default" else ""),
            _shown(item.value),
            Cell(item.source, _SOURCE_STYLES[item.source]),
            dim(item.help),
        )
        for item in found
    ]
    show_table(("setting", "value", "source", "description"), rows, empty="")


def _shown(value: object) -> str:
    return "" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


@config.command("database-url")
def database_url() -> None:
    """Print the URL of the database, with its password. Starts nothing.

    Without the setting [b]database_url[/b] it is the URL of the embedded Postgres, which must be running.

    [b]Example:[/b]  psql "$(posthouse config database-url)"
    """
    from posthouse.errors import ConfigurationError
    from posthouse.settings import load_settings

    settings = load_settings()
    url = settings.database_url
    if not url:
        from posthouse.storage.embedded import running_url

        url = running_url(settings.data_dir) or ""
    if not url:
        raise ConfigurationError(
            f"no database is running: POSTHOUSE_DATABASE_URL is not set, and the embedded Postgres in "
            f"{settings.data_dir} is stopped; start it with `posthouse up`"
        )
    print_line(url)


if TYPE_CHECKING:
    from posthouse.insights import RetentionReport
    from posthouse.settings import Settings
    from posthouse.storage.keeper import RetentionStep

ACTIONS = {
    "drop": "drop",
    "shrink": "keep only rows of {tenants}",
    "purge": "delete rows of {tenants}",
    "delete": "delete old rows",
    "finish": "drop",
}
MAX_TENANTS = 3
THOUSAND = 1000


def retention(
    run: bool = typer.Option(False, "--run", help="Delete expired data now (audited)."),
    as_json: bool = json_option(),
) -> None:
    """Show retention periods, stored data and what is due for deletion; with --run delete it now.

    The keeper deletes expired data every ten minutes. Row counts are estimates of Postgres.

    [b]Examples:[/b]

    posthouse retention

    posthouse retention --run

    posthouse retention --json | jq '.due[].name'
    """
    if run:
        _run(as_json=as_json)
    else:
        _report(as_json=as_json)


def _report(*, as_json: bool) -> None:
    from posthouse import insights

    async def load(db: Any, known: Settings) -> tuple[RetentionReport, datetime]:
        return await insights.retention(db, known.kept_days()), await insights.database_now(db)

    found, now = read(load)
    if as_json:
        show_json(found)
        return
    _show_tables(found, now)
    if found.tenants:
        own = ", ".join(f"{tenant.id} {tenant.retention_days:g} d" for tenant in found.tenants)
        print_line(f"\ntenants with their own retention: {own}")
    _show_due(found.due)


def _show_tables(found: RetentionReport, now: datetime) -> None:
    rows = [
        (
            Cell(item.category, "bold"),
            dim(item.relation),
            f"{item.days:g} d",
            count(item.rows),
            _bytes(item.bytes),
            "" if item.oldest is None else f"{item.oldest:%Y-%m-%d}",
            "now" if (at := item.next_deletion_at) and at <= now else format_age(at, now),
        )
        for item in found.tables
    ]
    heads = ("data", "table", "retention", "rows", "size", "oldest", "next drop")
    show_table(heads, rows, empty="", right=heads[2:5])


def _show_due(due: list[RetentionStep]) -> None:
    if not due:
        print_line("\nnothing is due for deletion")
        return
    print_line("\ndue for deletion:")
    rows = [(Cell(item.name, "bold"), _describe(item), count(item.rows), _bytes(item.bytes)) for item in due]
    show_table(("table", "action", "rows", "size"), rows, empty="", right=("rows", "size"))


def _describe(due: RetentionStep) -> str:
    names = ", ".join(due.tenants[:MAX_TENANTS])
    if len(due.tenants) > MAX_TENANTS:
        names += f" and {len(due.tenants) - MAX_TENANTS} more"
    return ACTIONS[due.action].format(tenants=names)


def _bytes(number: float) -> str:
    units = ["TB", "GB", "MB", "kB"]
    unit = "B"
    while number >= THOUSAND and units:
        number, unit = number / 1024, units.pop()
    return f"{number:.3g} {unit}"


def _run(*, as_json: bool) -> None:

    counts = read(_run_retention)
    if as_json:
        show_json(counts)
        return
    print_line(
        f"{counts['dropped']:,} partition(s) dropped, {counts['shrunk']:,} shrunk, "
        f"{counts['deleted']:,} row(s) deleted"
    )
    if counts["busy"]:
        print_line(
            "some tables were locked; the keeper tries again in its next clean-up", style="yellow", err=True
        )


async def _run_retention(db: Any, known: Settings) -> dict[str, int]:
    from posthouse import insights
    from posthouse.keeper.retention import RetentionRun
    from posthouse.storage.actions import write_audit
    from posthouse.storage.connections import ReconnectingConnection
    from posthouse.storage.database import database_url

    report = await insights.retention(db, known.kept_days())
    connection = ReconnectingConnection(database_url(known), "cli")
    try:
        with _bar(report.due) as on_progress:
            counts = await RetentionRun(connection, known.kept_days(), on_progress=on_progress).run()
    finally:
        await connection.close()
    if any(counts.values()):
        await write_audit(db, "retention.run", "retention", counts, actor=current_actor())
    return counts


@contextmanager
def _bar(due: list[RetentionStep]) -> Iterator[Callable[[RetentionStep, float], None]]:
    """Show progress on stderr: one step per due item."""
    if not sys.stderr.isatty():
        yield lambda _due, _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=max(1, len(due)))
        done: dict[str, float] = {}

        def on_progress(item: RetentionStep, share: float) -> None:
            done[item.name] = share
            progress.update(task, completed=sum(done.values()), description=f"{item.name} {_describe(item)}")

        yield on_progress


def glossary(
    term: list[str] | None = typer.Argument(None, metavar="TERM", help="The term. Default: all terms."),
) -> None:
    """Explain the terms that Posthouse uses."""
    from posthouse.core.glossary import TERMS

    wanted = " ".join(term or ()).lower()
    if wanted and wanted not in TERMS:
        raise UsageError(f"unknown term {wanted!r}; list all terms with `posthouse glossary`")
    for name in [wanted] if wanted else TERMS:
        typer.echo(f"{name}: {TERMS[name]}")
