"""posthouse config: the settings in effect."""

from __future__ import annotations

from posthouse.cli.options import json_option
from posthouse.cli.output import Cell, dim, show_json, show_table

_SOURCE_STYLES = {"environment": "green", "file": "cyan", "default": "dim"}


def config(as_json: bool = json_option()) -> None:
    """Show the settings in effect, and where each came from. Secrets are masked.

    Later ones win: defaults, posthouse.toml in this folder, POSTHOUSE_... in the environment, flags.

    [b]Example:[/b]  POSTHOUSE_CONCURRENCY=20 posthouse config
    """
    from dataclasses import fields

    from posthouse.settings import ENV_PREFIX, Settings, load_settings, setting_sources

    values = load_settings().shown()
    sources = setting_sources()
    if as_json:
        show_json({name: {"value": values[name], "source": sources[name]} for name in values})
        return
    rows = [
        (
            Cell(ENV_PREFIX + item.name.upper(), "bold" if sources[item.name] != "default" else ""),
            _shown(values[item.name]),
            Cell(sources[item.name], _SOURCE_STYLES[sources[item.name]]),
            dim(item.metadata["help"]),
        )
        for item in fields(Settings)
    ]
    show_table(("setting", "value", "from", "what it is"), rows, empty="")


def _shown(value: object) -> str:
    return "" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
