"""posthouse config: the settings in effect and the URL of the database."""

from __future__ import annotations

import typer

from posthouse.cli.options import json_option
from posthouse.cli.output import Cell, dim, say, show_json, show_table

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
        _show(as_json=as_json)


def _show(*, as_json: bool) -> None:
    from posthouse.insights.settings import settings_in_effect
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
    say(url)
