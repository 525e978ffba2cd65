"""posthouse queues: list, pause, resume and drain queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import read, read_at
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import ListGroup, as_usage_error, current_actor, json_option
from posthouse.cli.output import (
    Cell,
    count,
    format_age,
    print_line,
    progress_view,
    show_json,
    show_table,
    span,
)

if TYPE_CHECKING:
    from posthouse.insights import QueueInfo

queues = typer.Typer(cls=ListGroup, help="List queues; pause, resume and drain them.")

_NAME = typer.Argument(..., metavar="NAME", help="Queue name.")
_NAMES = typer.Argument(..., metavar="NAME...", help="Queue names.")
POLL_SECONDS = 0.2
COSTLY = 20
"""The pause between polls is at least this many times the duration of a poll."""


@queues.command("list")
def list_(as_json: bool = json_option()) -> None:
    """List queues: jobs by state, the longest wait, and the number of workers."""
    from posthouse import insights

    found, now = read_at(lambda db, known: insights.list_queues(db, offline_after=known.offline_after))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(queue.name, "bold"),
            count(queue.ready, "cyan"),
            count(queue.scheduled),
            count(queue.blocked),
            count(queue.running, "blue"),
            Cell(span(queue.oldest_ready_seconds)),
            Cell(str(queue.workers), "" if queue.workers or not queue.ready else "bold red"),
            Cell(
                f"{format_age(queue.paused_at, now)} by {queue.paused_by}" if queue.paused_at else "",
                "yellow",
            ),
        )
        for queue in found
    ]
    heads = ("queue", "ready", "scheduled", "blocked", "running", "oldest", "workers", "paused")
    show_table(heads, rows, empty="no queues yet: enqueue a job or start a worker", right=heads[1:7])


@queues.command()
def pause(names: list[str] = _NAMES, as_json: bool = json_option()) -> None:
    """Pause queues: start no more jobs. Running jobs continue, and new jobs are accepted. Audited.

    [b]Example:[/b]  posthouse queues pause mail
    """
    from posthouse.storage.actions import pause_queue

    _switch(names, pause_queue, "paused", "already paused", as_json=as_json)


@queues.command()
def resume(names: list[str] = _NAMES, as_json: bool = json_option()) -> None:
    """Resume paused queues. Audited."""
    from posthouse.storage.actions import resume_queue

    _switch(names, resume_queue, "resumed", "was not paused", as_json=as_json)


def _switch(names: list[str], act: Any, done: str, already: str, *, as_json: bool) -> None:
    from posthouse import insights

    async def work(db: Any, _: Any) -> list[tuple[str, bool, bool]]:
        return [
            (name, await act(db, name, actor=current_actor()), await insights.queue_is_known(db, name))
            for name in names
        ]

    answers = read(work)
    if as_json:
        show_json([{"name": name, "changed": changed} for name, changed, _ in answers])
    for name, changed, known in answers:
        if not as_json:
            print_line(f"{name}  {done if changed else already}")
        if not known:
            print_line(
                f"note: queue {name!r} is not used by any job, worker or definition yet",
                style="yellow",
                err=True,
            )


@queues.command()
def drain(
    name: str = _NAME,
    timeout: str | None = typer.Option(None, metavar="SPAN", help="Maximum time to wait, e.g. 30s, 5m."),
    until_empty: bool = typer.Option(
        False, "--until-empty", help="Do not pause; wait until all queued jobs have run."
    ),
    as_json: bool = json_option(),
) -> None:
    """Pause a queue and wait until its running jobs finish. Audited.

    The queue stays paused, even after a timeout. Exits with 1 on a timeout.

    [b]Examples:[/b]

    posthouse queues drain mail --timeout 5m

    posthouse queues drain mail --until-empty
    """
    from posthouse.core.duration import seconds
    from posthouse.storage.actions import pause_queue

    with as_usage_error():
        limit = None if timeout is None else seconds(timeout)

    async def work(db: Any, _: Any) -> tuple[QueueInfo, bool]:
        if not until_empty:
            await pause_queue(db, name, actor=current_actor())
        return await _wait(db, name, limit, until_empty=until_empty)

    left, done = read(work)
    if as_json:
        show_json({**_document(left), "drained": done})
    elif done:
        print_line(f"{name}  empty" if until_empty else f"{name}  paused, no running jobs")
    if not done:
        typer.echo(f"error: queue {name} was not drained within {timeout}: {_describe(left)}", err=True)
        raise typer.Exit(1)


async def _wait(db: Any, name: str, limit: float | None, *, until_empty: bool) -> tuple[QueueInfo, bool]:
    """Return the last counts, and whether the queue is drained."""
    import asyncio
    import time

    from posthouse import insights

    deadline = None if limit is None else time.monotonic() + limit
    with progress_view(name) as bar:
        while True:
            started = time.monotonic()
            counts = await insights.get_queue(db, name)
            if until_empty and counts.paused_at is not None and counts.ready:
                raise UsageError(
                    f"queue {name} is paused; resume it first with `posthouse queues resume {name}`"
                )
            left = counts.running + (counts.ready + _waiting(counts) if until_empty else 0)
            bar.show(left, _describe(counts))
            if not left or (deadline is not None and time.monotonic() >= deadline):
                return counts, not left
            now = time.monotonic()
            pause = max(POLL_SECONDS, COSTLY * (now - started))
            await asyncio.sleep(pause if deadline is None else min(pause, max(0.0, deadline - now)))


def _describe(counts: QueueInfo) -> str:
    return f"{counts.running:,} running, {counts.ready:,} ready, {_waiting(counts):,} waiting"


def _document(counts: QueueInfo) -> dict[str, Any]:
    return {
        "name": counts.name,
        "running": counts.running,
        "ready": counts.ready,
        "waiting": _waiting(counts),
        "paused_at": counts.paused_at,
    }


def _waiting(counts: QueueInfo) -> int:
    return counts.scheduled + counts.blocked
