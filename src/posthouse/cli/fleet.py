"""posthouse queues, workers, definitions."""

from __future__ import annotations

import typer

from posthouse.cli.options import json_option
from posthouse.cli.output import Cell, ago, dim, first_line, show_json, show_table, span, status


def queues(as_json: bool = json_option()) -> None:
    """Show each queue: what is in it, how long its oldest job has waited, how many workers serve it."""
    from posthouse import insights
    from posthouse.cli.session import read

    found = read(lambda db, known: insights.queue_overview(db, offline_after=known.lease_seconds))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(queue.name, "bold"),
            _number(queue.ready, "cyan"),
            _number(queue.scheduled),
            _number(queue.blocked),
            _number(queue.running, "blue"),
            Cell(span(queue.oldest_ready_seconds)),
            Cell(str(queue.workers), "" if queue.workers or not queue.ready else "bold red"),
        )
        for queue in found
    ]
    heads = ("queue", "ready", "scheduled", "blocked", "running", "oldest", "workers")
    show_table(heads, rows, empty="no queue yet: enqueue a job, or start a worker", right=heads[1:])


def workers(
    everyone: bool = typer.Option(False, "--all", help="Also those that left more than a day ago."),
    as_json: bool = json_option(),
) -> None:
    """Show the workers and what they are doing: active, idle, busy (full) or offline."""
    from posthouse import insights
    from posthouse.cli.session import read
    from posthouse.settings import Settings
    from posthouse.storage.reading import Db

    async def look(db: Db, known: Settings) -> tuple[list[insights.WorkerInfo], object]:
        within = None if everyone else 86400.0
        found = await insights.workers(db, offline_after=known.lease_seconds, offline_within=within)
        return found, await insights.database_now(db)

    found, now = read(look)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(worker.name, "bold"),
            Cell("offline, died", "bold red") if worker.died else status(worker.status),
            f"{worker.running}/{worker.concurrency}",
            ", ".join(worker.queues),
            first_line(", ".join(worker.kinds), 50),
            ago(worker.heartbeat_at, now),  # type: ignore[arg-type]
            dim(str(worker.id)),
        )
        for worker in found
    ]
    heads = ("worker", "status", "jobs", "queues", "kinds", "heartbeat", "id")
    show_table(heads, rows, empty="no worker: start one with `posthouse worker --app module:app`")


def definitions(as_json: bool = json_option()) -> None:
    """Show the kinds of job that workers have announced, with their defaults."""
    from posthouse import insights
    from posthouse.cli.session import read

    found = read(lambda db, known: insights.definitions(db, offline_after=known.lease_seconds))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(item.key, "bold"),
            item.queue,
            str(item.priority),
            str(item.max_attempts),
            span(item.timeout_seconds),
            Cell(str(item.workers), "" if item.workers else "yellow"),
            dim(first_line(item.description.partition("\n")[0], 60)),
        )
        for item in found
    ]
    heads = ("kind", "queue", "priority", "attempts", "timeout", "workers", "what it does")
    empty = "no kind is known yet: workers announce theirs when they start"
    show_table(heads, rows, empty=empty, right=("priority", "attempts", "timeout", "workers"))


def _number(count: int, style: str = "") -> Cell:
    return Cell(f"{count:,}", style) if count else Cell("0", "dim")
