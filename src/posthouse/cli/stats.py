"""posthouse stats: arrivals, finished jobs, failures, waits and run times by minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from posthouse.cli.options import checked_usage, json_option
from posthouse.cli.output import Cell, count, dim, show_json, show_table, span, sparkline

if TYPE_CHECKING:
    from posthouse.insights import Series

CHART = 30
"""Width of a chart in a table, in characters."""


def stats(
    *,
    queue: str | None = typer.Option(None, help="Only this queue."),
    kind: str | None = typer.Option(None, help="Only this kind."),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    since: str = typer.Option("1h", metavar="SPAN", help="Length of the period, e.g. 15m, 1h, 7d."),
    by: str = typer.Option(
        "queue,kind",
        metavar="COLUMNS",
        help="Grouping: tenant, queue, kind, several separated by commas, or all for one total.",
    ),
    step: str | None = typer.Option(
        None,
        metavar="SPAN",
        help="Time between points. Default: 1m; 5m for more than 2h, 1h for more than 12h.",
    ),
    as_json: bool = json_option(),
) -> None:
    """Show arrived, finished and failed jobs, wait and run times, and the backlog.

    The keeper records a sample of each full minute. Times are the median and the 95th percentile.

    [b]Examples:[/b]

    posthouse stats --since 15m

    posthouse stats --queue mail --by kind --since 7d --json
    """
    from posthouse import insights
    from posthouse.cli.session import read
    from posthouse.core.duration import seconds

    with checked_usage():
        length = seconds(since)
        apart = None if step is None else round(seconds(step))
        columns = [] if by == "all" else [name.strip() for name in by.split(",")]
        insights.check_series(length, apart, columns)
    found = read(
        lambda db, _: insights.series(
            db, span=length, step=apart, by=columns, tenant=tenant, queue=queue, kind=kind
        )
    )
    show_json(found) if as_json else _show(found, columns)


def _show(found: list[Series], columns: list[str]) -> None:
    heads = [*columns, "arrived", "", "finished", "failures", "wait", "run", "ready", "oldest"]
    rows = [
        (
            *(Cell(getattr(line, name) or "", "bold") for name in columns),
            count(line.total.arrivals),
            Cell(_chart([point.arrivals for point in line.points]), "cyan"),
            count(line.total.ended, "green"),
            count(line.total.failures, "red"),
            dim(_times(line.total.wait_p50, line.total.wait_p95)),
            dim(_times(line.total.run_p50, line.total.run_p95)),
            count(line.total.ready or 0, "cyan"),
            Cell(span(line.total.oldest_seconds)),
        )
        for line in found
    ]
    show_table(
        heads,
        rows,
        empty="no samples in this period: a keeper (part of `posthouse worker`) records one per minute",
        right=("arrived", "finished", "failures", "ready", "oldest"),
    )


def _times(half: float | None, most: float | None) -> str:
    return "" if half is None or most is None else f"{span(half)} / {span(most)}"


def _chart(values: list[int]) -> str:
    """Return a chart of limited width; neighbouring values are added up."""
    width = -(-len(values) // CHART)
    return sparkline([sum(values[start : start + width]) for start in range(0, len(values), width)])
