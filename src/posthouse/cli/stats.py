"""posthouse stats and posthouse top: throughput and waits over time, and a live screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from posthouse.cli.database import read
from posthouse.cli.options import as_usage_error, json_option
from posthouse.cli.output import (
    Cell,
    count,
    dim,
    escape_terminal,
    first_line,
    format_age,
    job_cell,
    print_line,
    rich_table,
    show_json,
    show_table,
    span,
    sparkline,
    status,
)

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
    from posthouse.core.duration import seconds

    with as_usage_error():
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


if TYPE_CHECKING:
    import asyncio

    from posthouse.insights import Activity, JobSummary, QueueOverview, WorkerInfo
    from posthouse.settings import Settings

REFRESH_SECONDS = 1.0
MAX_LOAD = 10
"""The pause between refreshes is at least this many times the duration of a refresh."""
FRAME_LINES = 14
"""Lines of a frame that are not rows: the headline, and the title, head and blank line of each section."""
MIN_ROWS = 2


class Section(NamedTuple):
    """A table of the frame with its title."""

    title: str
    heads: Sequence[str]
    rows: list[list[str | Cell]]
    empty: str
    right: Sequence[str] = ()


def top(
    once: bool = typer.Option(False, "--once", help="Print one frame and exit."),
    as_json: bool = json_option(),
) -> None:
    """Watch queues, workers, running jobs and recent failures; press q to quit.

    Refreshes every second. Without a terminal it prints one frame, as with --once.

    [b]Examples:[/b]

    posthouse top

    posthouse top --json | jq '.queues[] | {name, ready, running}'
    """
    live = sys.stdout.isatty() and not once and not as_json
    try:
        seen = read(_watch if live else _load_activity)
    except KeyboardInterrupt:
        return
    if seen is None:
        return
    show_json(seen) if as_json else _print(seen)


async def _load_activity(db: Any, settings: Settings) -> Activity:
    from posthouse import insights

    return await insights.activity(db, offline_after=settings.offline_after)


async def _watch(db: Any, settings: Settings) -> None:
    """Show a frame every second until q is pressed."""
    import asyncio
    import time

    from rich.console import Console
    from rich.live import Live

    console = Console()
    quit_pressed = asyncio.Event()
    with _keys(quit_pressed), Live(console=console, screen=True, auto_refresh=False) as live:
        while not quit_pressed.is_set():
            started = time.monotonic()
            live.update(_frame(await _load_activity(db, settings), console.height), refresh=True)
            pause = max(REFRESH_SECONDS, MAX_LOAD * (time.monotonic() - started))
            await _wait(quit_pressed, pause)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    import asyncio
    from contextlib import suppress

    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


@contextmanager
def _keys(quit_pressed: asyncio.Event) -> Iterator[None]:
    """Read single keys from the terminal, and restore it afterwards."""
    import asyncio
    import os

    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    fd = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(fd)

    def pressed() -> None:
        if os.read(fd, 64).lower() in {b"q", b""}:
            quit_pressed.set()

    tty.setcbreak(fd)
    loop.add_reader(fd, pressed)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _print(seen: Activity) -> None:
    print_line(_headline(seen), style="bold")
    for section in _sections(seen):
        print_line(f"\n{section.title}", style="bold")
        if section.rows:
            show_table(section.heads, section.rows, empty="", right=section.right)
        else:
            print_line(section.empty, style="dim")


def _frame(seen: Activity, height: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text.assemble((_headline(seen), "bold"), ("   q: quit", "dim"))]
    sections = _sections(seen)
    for section, most in zip(sections, _room(sections, height - FRAME_LINES), strict=True):
        more = len(section.rows) - most
        parts.append(Text(f"\n{section.title}" + (f", {more} more not shown" if more > 0 else ""), "bold"))
        rows = [
            [cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in section.rows[:most]
        ]
        table = rich_table(section.heads, rows, section.right, lines=False)
        parts.append(table if rows else Text(section.empty, "dim"))
    return Group(*parts)


def _room(sections: list[Section], lines: int) -> list[int]:
    """How many rows of each section fit: each gets its share, and a short one leaves the rest to others."""
    room = [0] * len(sections)
    shortest_first = sorted(range(len(sections)), key=lambda index: len(sections[index].rows))
    for number, index in enumerate(shortest_first):
        room[index] = max(MIN_ROWS, lines // (len(sections) - number))
        lines -= min(room[index], len(sections[index].rows))
    return room


def _headline(seen: Activity) -> str:
    online = sum(worker.status != "offline" for worker in seen.workers)
    return (
        f"posthouse  {seen.at.astimezone():%H:%M:%S}   {seen.ready:,} ready, {seen.scheduled:,} scheduled, "
        f"{seen.blocked:,} blocked, {seen.running:,} running   "
        f"{online:,} worker{'' if online == 1 else 's'} online"
    )


def _sections(seen: Activity) -> list[Section]:
    names = {worker.id: worker.name for worker in seen.workers}
    queue_heads = (
        "queue",
        "ready",
        "scheduled",
        "blocked",
        "running",
        "finished/min",
        "oldest",
        "workers",
        "",
    )
    return [
        Section(
            "Queues",
            queue_heads,
            [
                _queue(queue, seen.finished_per_minute.get(queue.name, 0))
                for queue in sorted(seen.queues, key=_is_empty)
            ],
            "no queues yet: enqueue a job or start a worker",
            queue_heads[1:8],
        ),
        Section(
            "Workers",
            ("worker", "status", "jobs", "queues", "heartbeat"),
            [_worker(worker, seen) for worker in seen.workers],
            "no workers online: start one with `posthouse worker --app module:app`",
        ),
        Section(
            "Running jobs, longest first",
            ("id", "kind", "queue", "worker", "attempt", "running for", "progress"),
            [_job(job, names.get(job.worker_id, "") if job.worker_id else "", seen) for job in seen.jobs],
            "no running jobs",
        ),
        Section(
            "Failures in the last hour",
            ("failure", "kind", "attempts", "last", "error"),
            [
                [
                    dim(group.fingerprint),
                    Cell(group.kind, "bold"),
                    count(group.failures, "red"),
                    format_age(group.last_seen, seen.at),
                    first_line(f"{group.type}: {escape_terminal(group.message)}", 60),
                ]
                for group in seen.failures
            ],
            "no failures in the last hour",
            ("attempts",),
        ),
    ]


def _is_empty(queue: QueueOverview) -> bool:
    return not (queue.ready or queue.scheduled or queue.blocked or queue.running)


def _queue(queue: QueueOverview, finished: int) -> list[str | Cell]:
    return [
        Cell(queue.name, "bold"),
        count(queue.ready, "cyan"),
        count(queue.scheduled),
        count(queue.blocked),
        count(queue.running, "blue"),
        count(finished, "green"),
        span(queue.oldest_ready_seconds),
        Cell(str(queue.workers), "" if queue.workers or not queue.ready else "bold red"),
        Cell("paused" if queue.paused_at else "", "yellow"),
    ]


def _worker(worker: WorkerInfo, seen: Activity) -> list[str | Cell]:
    return [
        Cell(worker.name, "bold"),
        Cell("offline, died", "bold red") if worker.lost else status(worker.status),
        f"{worker.running}/{worker.concurrency}",
        first_line(", ".join(worker.queues), 40),
        dim(format_age(worker.heartbeat_at, seen.at)),
    ]


def _job(job: JobSummary, worker: str, seen: Activity) -> list[str | Cell]:
    from posthouse.cli.job_output import bar

    return [
        job_cell(job.id),
        Cell(job.kind, "bold"),
        job.queue,
        worker,
        f"{job.attempt_count}/{job.max_attempts}",
        span((seen.at - (job.attempt_started_at or seen.at)).total_seconds()),
        " ".join(filter(None, (bar(job.progress_percent), escape_terminal(job.current_step or "")))),
    ]
