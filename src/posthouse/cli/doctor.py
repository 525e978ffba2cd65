"""posthouse doctor: health checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from posthouse.cli.options import json_option
from posthouse.cli.output import STATUS_STYLES, say, show_json

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

    from posthouse.insights.doctor import examine, report
    from posthouse.settings import load_settings
    from posthouse.storage.server import database_url

    settings = load_settings()
    found = report(asyncio.run(examine(database_url(settings), settings)))
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
        say(f"{_MARKS[item.severity]} {item.check:<{width}}  ", style=STATUS_STYLES[item.severity], end="")
        say(item.summary, style="dim" if item.severity == "ok" else "bold")
        for text in (item.meaning, item.advice):
            if text:
                say(f"{'':<{width}}    {text}")
    say(f"{counts['ok']} ok, {counts['warning']} warning(s), {counts['error']} error(s)")
