"""All commands, and the main program."""

from __future__ import annotations

import signal
import sys
from inspect import cleandoc
from typing import Any, NoReturn

import typer

from posthouse.cli.access import audit, keys
from posthouse.cli.alerts import alerts
from posthouse.cli.bench import bench
from posthouse.cli.database import CONTEXT, psql
from posthouse.cli.definitions import definitions
from posthouse.cli.demos import demo
from posthouse.cli.enqueue import enqueue
from posthouse.cli.events import events
from posthouse.cli.failures import failures
from posthouse.cli.guarding import leave_embedded, run_guarded
from posthouse.cli.init import init
from posthouse.cli.jobs import jobs
from posthouse.cli.limits import limits
from posthouse.cli.maintenance import config, doctor, glossary, migrate, retention
from posthouse.cli.queues import queues
from posthouse.cli.run_server import server
from posthouse.cli.run_worker import keeper, worker
from posthouse.cli.stats import stats, top
from posthouse.cli.tenants import erase, tenants
from posthouse.cli.triggers import triggers
from posthouse.cli.up import up
from posthouse.cli.workers import workers

cli = typer.Typer(
    name="posthouse",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS: dict[str, tuple[Any, ...]] = {
    "Run": (up, server, worker, keeper, demo),
    "Jobs": (enqueue, erase),
    "Fleet": (top, doctor, stats, retention),
    "Set up": (init, migrate, bench, glossary),
}
_GROUPS: dict[str, tuple[tuple[str, typer.Typer], ...]] = {
    "Jobs": (
        ("jobs", jobs),
        ("failures", failures),
        ("definitions", definitions),
        ("triggers", triggers),
        ("events", events),
    ),
    "Fleet": (
        ("queues", queues),
        ("workers", workers),
        ("limits", limits),
        ("tenants", tenants),
        ("keys", keys),
        ("audit", audit),
        ("alerts", alerts),
    ),
    "Set up": (("config", config),),
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        cli.command(rich_help_panel=_panel)(_command)
    for _name, _group in _GROUPS.get(_panel, ()):
        cli.add_typer(_group, name=_name, rich_help_panel=_panel)

cli.command(rich_help_panel="Set up", context_settings=CONTEXT)(psql)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("posthouse"))
        raise typer.Exit


@cli.callback()
def root(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Durable jobs in Postgres. [b]posthouse up[/b] starts everything."""


def _unwrap_help(group: typer.Typer) -> None:
    """Join the lines of each paragraph of the help: only the terminal wraps them."""
    for command in group.registered_commands:
        command.help = _unwrapped(command.help or getattr(command.callback, "__doc__", None))
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _unwrap_help(inner.typer_instance)
            callback = inner.typer_instance.registered_callback
            if callback is not None and callback.callback is not None:
                callback.help = _unwrapped(callback.callback.__doc__)


def _unwrapped(text: str | None) -> str | None:
    paragraphs = cleandoc(text or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs) or None


_unwrap_help(cli)


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _terminate)
    try:
        # The name is given, so that help and completion are the same for `python -m posthouse`.
        sys.exit(run_guarded(lambda: cli(prog_name="posthouse", standalone_mode=False)))
    finally:
        leave_embedded()


def _terminate(*_: object) -> NoReturn:
    """Exit cleanly on SIGTERM before a command has an event loop, and stop the embedded Postgres."""
    sys.exit(128 + signal.SIGTERM)
