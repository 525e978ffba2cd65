"""The command line."""

from __future__ import annotations

import importlib
import sys

import typer

from posthouse.app import App
from posthouse.errors import ConfigurationError, PosthouseError

cli = typer.Typer(no_args_is_help=True, add_completion=False, help="Durable jobs that live in Postgres.")


@cli.command()
def worker(
    app: str = typer.Option(..., help="Where your app is: module:name."),
    queue: list[str] = typer.Option([], help="Serve only these queues."),
) -> None:
    """Run jobs until told to stop."""
    load_app(app).run_worker(queues=queue)


@cli.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("posthouse"))


def load_app(path: str) -> App:
    module, _, name = path.partition(":")
    sys.path.insert(0, "")
    found = getattr(importlib.import_module(module), name or "app", None)
    if not isinstance(found, App):
        raise ConfigurationError(f"{path} is not a posthouse.App; write --app module:name")
    return found


def main() -> None:
    try:
        cli()
    except PosthouseError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None
