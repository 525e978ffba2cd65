"""posthouse config: the settings in effect."""

from __future__ import annotations

from posthouse.cli.options import json_option
from posthouse.cli.output import Cell, dim, show_json, show_table

_SOURCE_STYLES = {"flag": "green", "environment": "green", "file": "cyan", "default": "dim"}


def config(as_json: bool = json_option()) -> None:
    """Show the settings in effect, and where each came from. Secrets are masked.

    Later ones win: defaults, posthouse.toml in this folder, POSTHOUSE_... in the environment, flags.

    [b]Example:[/b]  POSTHOUSE_CONCURRENCY=20 posthouse config
    """
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
    show_table(("setting", "value", "from", "what it is"), rows, empty="")


def _shown(value: object) -> str:
    return "" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
