"""posthouse retention: retention periods and clean-up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.options import caller, json_option
from posthouse.cli.output import Cell, ago, count, dim, say, show_json, show_table

if TYPE_CHECKING:
    from posthouse.insights import RetentionReport
    from posthouse.settings import Settings
    from posthouse.storage.retention import Due

ACTIONS = {
    "drop": "drop",
    "shrink": "keep only rows of {tenants}",
    "purge": "delete rows of {tenants}",
    "delete": "delete old rows",
    "finish": "drop",
}
MOST_TENANTS = 3
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
    from posthouse.cli.session import read

    async def look(db: Any, known: Settings) -> tuple[RetentionReport, datetime]:
        return await insights.retention(db, known.kept_days()), await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
        return
    _show_things(found, now)
    if found.tenants:
        own = ", ".join(f"{tenant.id} {tenant.retention_days:g} d" for tenant in found.tenants)
        say(f"\ntenants with their own retention: {own}")
    _show_due(found.due)


def _show_things(found: RetentionReport, now: datetime) -> None:
    rows = [
        (
            Cell(item.thing, "bold"),
            dim(item.relation),
            f"{item.days:g} d",
            count(item.rows),
            _bytes(item.bytes),
            "" if item.oldest is None else f"{item.oldest:%Y-%m-%d}",
            "now" if item.next_drop_at and item.next_drop_at <= now else ago(item.next_drop_at, now),
        )
        for item in found.things
    ]
    heads = ("data", "table", "retention", "rows", "size", "oldest", "next drop")
    show_table(heads, rows, empty="", right=heads[2:5])


def _show_due(due: list[Due]) -> None:
    if not due:
        say("\nnothing is due for deletion")
        return
    say("\ndue for deletion:")
    rows = [(Cell(item.name, "bold"), _told(item), count(item.rows), _bytes(item.bytes)) for item in due]
    show_table(("table", "action", "rows", "size"), rows, empty="", right=("rows", "size"))


def _told(due: Due) -> str:
    names = ", ".join(due.tenants[:MOST_TENANTS])
    if len(due.tenants) > MOST_TENANTS:
        names += f" and {len(due.tenants) - MOST_TENANTS} more"
    return ACTIONS[due.action].format(tenants=names)


def _bytes(number: float) -> str:
    units = ["TB", "GB", "MB", "kB"]
    unit = "B"
    while number >= THOUSAND and units:
        number, unit = number / 1024, units.pop()
    return f"{number:.3g} {unit}"


def _run(*, as_json: bool) -> None:
    from posthouse.cli.session import read

    counts = read(_let_go)
    if as_json:
        show_json(counts)
        return
    say(
        f"{counts['dropped']:,} partition(s) dropped, {counts['shrunk']:,} shrunk, "
        f"{counts['deleted']:,} row(s) deleted"
    )
    if counts["busy"]:
        say("some tables were locked; the keeper tries again in its next clean-up", style="yellow", err=True)


async def _let_go(db: Any, known: Settings) -> dict[str, int]:
    from posthouse import insights
    from posthouse.keeper.retention import Retention
    from posthouse.storage.connect import Line
    from posthouse.storage.control import note
    from posthouse.storage.server import database_url

    report = await insights.retention(db, known.kept_days())
    line = Line(database_url(known), "cli")
    try:
        with _bar(report.due) as told:
            counts = await Retention(line, known.kept_days(), told=told).run()
    finally:
        await line.close()
    if any(counts.values()):
        await note(db, "retention.run", "retention", counts, actor=caller())
    return counts


@contextmanager
def _bar(due: list[Due]) -> Iterator[Callable[[Due, float], None]]:
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

        def told(item: Due, share: float) -> None:
            done[item.name] = share
            progress.update(task, completed=sum(done.values()), description=f"{item.name} {_told(item)}")

        yield told
