"""posthouse workers: list, disable, enable and drain workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import read
from posthouse.cli.options import ListGroup, current_actor, json_option
from posthouse.cli.output import Cell, dim, first_line, format_age, print_line, show_json, show_table, status

if TYPE_CHECKING:
    from datetime import datetime

    from posthouse.insights import NamedWorker, WorkerInfo

workers = typer.Typer(cls=ListGroup, help="List workers and their jobs; disable, enable and drain them.")

_ALL = typer.Option(False, "--all", help="Also workers that disconnected more than a day ago.")
_NAMES = typer.Argument(
    ..., metavar="ID|NAME...", help="Worker ids or names; a name selects all workers with it."
)
SHOWN_JOBS = 2


@workers.command("list")
def list_(everyone: bool = _ALL, as_json: bool = json_option()) -> None:
    """List workers: idle, active (has free slots), busy (no free slots), disabled or offline."""
    from posthouse import insights

    async def load(db: Any, known: Any) -> tuple[list[WorkerInfo], datetime]:
        within = None if everyone else 86400.0
        found = await insights.workers(db, offline_after=known.offline_after, offline_within=within)
        return found, await insights.database_now(db)

    found, now = read(load)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(worker.name, "bold"),
            _state(worker),
            f"{worker.running}/{worker.concurrency}",
            _runs(worker),
            _names(worker.queues),
            _names(worker.kinds),
            ", ".join(worker.capabilities),
            format_age(worker.heartbeat_at, now),
            worker.version,
            dim(str(worker.id)),
        )
        for worker in found
    ]
    heads = (
        "worker", "status", "jobs", "running", "queues", "kinds", "capabilities", "heartbeat", "version",
        "id",
    )  # fmt: skip
    show_table(
        heads,
        rows,
        empty="no workers: start one with `posthouse worker --app module:app`",
        only_plain={"capabilities", "version", "id"},
    )


def _names(names: list[str]) -> Cell:
    text = ", ".join(names)
    return Cell(text, short=text if len(names) <= 1 else f"{names[0]} + {len(names) - 1}")


def _state(worker: WorkerInfo) -> Cell:
    if worker.lost:
        return Cell("offline, died", "bold red")
    if worker.status != "offline" and worker.drain_requested_at is not None:
        return Cell(f"{worker.status}, draining", "magenta")
    return status(worker.status)


def _runs(worker: WorkerInfo) -> str:
    names = [job.kind for job in worker.jobs[:SHOWN_JOBS]]
    more = worker.running - len(names)
    return first_line(", ".join(names) + (f" + {more}" if names and more > 0 else ""), 40)


@workers.command()
def disable(names: list[str] = _NAMES, as_json: bool = json_option()) -> None:
    """Disable workers: they start no more jobs. Running jobs continue. Audited.

    A worker with a configured name stays disabled after a restart.

    [b]Example:[/b]  posthouse workers disable studio-gpu
    """
    from posthouse.storage.actions import disable_worker

    _apply(names, disable_worker, "disabled", "already disabled", as_json=as_json)


@workers.command()
def enable(names: list[str] = _NAMES, as_json: bool = json_option()) -> None:
    """Enable disabled workers. Audited."""
    from posthouse.storage.actions import enable_worker

    _apply(names, enable_worker, "enabled", "was not disabled", as_json=as_json)


@workers.command()
def drain(names: list[str] = _NAMES, as_json: bool = json_option()) -> None:
    """Drain workers: they finish their running jobs, without a time limit, and stop. Audited.

    The process exits with 0; a process manager that always restarts it starts a new worker.

    [b]Example:[/b]  posthouse workers drain studio:4712
    """
    from posthouse.storage.actions import drain_worker

    _apply(names, drain_worker, "draining", "already draining", as_json=as_json, alive=True)


def _apply(
    names: list[str],
    act: Callable[..., Awaitable[bool]],
    done: str,
    already: str,
    *,
    as_json: bool,
    alive: bool = False,
) -> None:
    from posthouse import insights
    from posthouse.errors import IllegalTransition

    async def work(db: Any, known: Any) -> list[tuple[NamedWorker, bool]]:
        meant = {}
        for name in names:
            for worker in await insights.workers_by_name(db, name, offline_after=known.offline_after):
                if alive and not worker.alive:
                    raise IllegalTransition(f"worker {name} is offline and cannot be drained")
                meant[worker.id] = worker
        return [(worker, await act(db, worker.id, actor=current_actor())) for worker in meant.values()]

    changes = read(work)
    if as_json:
        show_json([{"id": worker.id, "name": worker.name, "changed": changed} for worker, changed in changes])
        return
    for worker, changed in changes:
        print_line(f"{worker.name}  {worker.id}  {done if changed else already}")
