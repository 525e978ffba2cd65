"""The command line: one module for each group of commands.

Nothing heavy is imported until a command needs it, so that --help answers at once.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, NoReturn

import typer

from posthouse.cli.alerts import alerts
from posthouse.cli.audit import audit
from posthouse.cli.bench import bench
from posthouse.cli.config import config
from posthouse.cli.definitions import definitions
from posthouse.cli.demos import demo
from posthouse.cli.doctor import doctor
from posthouse.cli.enqueue import enqueue
from posthouse.cli.events import events
from posthouse.cli.failures import failures
from posthouse.cli.jobs import jobs
from posthouse.cli.keys import keys
from posthouse.cli.limits import limits
from posthouse.cli.migrate import migrate
from posthouse.cli.options import WrongUsage
from posthouse.cli.queues import queues
from posthouse.cli.retention import retention
from posthouse.cli.server import server
from posthouse.cli.stats import stats
from posthouse.cli.tenants import tenants
from posthouse.cli.triggers import triggers
from posthouse.cli.up import up
from posthouse.cli.version import version
from posthouse.cli.worker import keeper, worker
from posthouse.cli.workers import workers
from posthouse.errors import PosthouseError

cli = typer.Typer(
    name="posthouse",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable jobs that live in Postgres. [b]posthouse up[/b] starts everything.",
)

_PANELS: dict[str, tuple[Any, ...]] = {
    "Run": (up, server, worker, keeper, demo),
    "Jobs": (enqueue,),
    "Fleet": (doctor, stats, retention),
    "Set up": (migrate, config, bench, version),
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
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        cli.command(rich_help_panel=_panel)(_command)
    for _name, _group in _GROUPS.get(_panel, ()):
        cli.add_typer(_group, name=_name, rich_help_panel=_panel)

USAGE = 2


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _terminate)
    try:
        sys.exit(_run())
    finally:
        _leave_embedded()


def _run() -> int:
    try:
        return cli(standalone_mode=False) or 0
    except PosthouseError as error:
        from posthouse.core.redaction import mask_text

        typer.echo(f"error: {mask_text(str(error))}", err=True)
        return USAGE if isinstance(error, WrongUsage) else 1
    except typer.Abort:
        return 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors have it, in every version
            raise
        return _explain_usage(error)


def _explain_usage(error: Any) -> int:
    """Wrong usage, in one line that says where the help is."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return USAGE
    command = context.command_path if context is not None else "posthouse"
    message = " ".join(error.format_message().split()).rstrip(".")
    typer.echo(f"error: {message}; see `{command} --help`", err=True)
    return int(error.exit_code)


def _terminate(*_: object) -> NoReturn:
    """Before a command has an event loop to tell: leave in order, the embedded Postgres too."""
    sys.exit(128 + signal.SIGTERM)


def _leave_embedded() -> None:
    """Lets go of the embedded Postgres, if a command used it; the last one out stops it."""
    server = sys.modules.get("posthouse.storage.server")
    if server is not None:
        server.close_embedded()
