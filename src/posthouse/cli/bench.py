"""posthouse bench: benchmarks on this machine."""

from __future__ import annotations

import json
from typing import Any

import typer


def bench(
    what: list[str] = typer.Argument(
        None,
        help="Benchmarks: drain, enqueue, latency, pinned, backlog, rescue (default: all of these), single.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document to stdout."),
) -> None:
    """Run benchmarks on this machine, in a database created for the run.

    Uses the server of POSTHOUSE_DATABASE_URL, or the embedded Postgres. Takes about two minutes.

    [b]single[/b] enqueues jobs of 1 kB one per statement, at rates that double until one is not held.
    """
    from posthouse import testing
    from posthouse.bench.measures import DEFAULT_MEASURES, MEASURES
    from posthouse.errors import ConfigurationError
    from posthouse.storage.database import close_embedded
    from posthouse.worker.shutdown import run_event_loop

    chosen = what or list(DEFAULT_MEASURES)
    for name in chosen:
        if name not in MEASURES:
            raise ConfigurationError(f"unknown benchmark {name!r}; available: {', '.join(MEASURES)}")
    found: dict[str, Any] = {}
    try:
        with testing.database() as url, _progress(chosen) as step:
            for name in chosen:
                run_event_loop(_add_figures(MEASURES[name], url, found))
                step()
    finally:
        close_embedded()
    typer.echo(json.dumps(found) if as_json else _table(found))


async def _add_figures(measure: Any, url: str, found: dict[str, Any]) -> None:
    found.update(await measure(url))


def _progress(names: list[str]) -> Any:
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    @contextmanager
    def shown() -> Any:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(names[0], total=len(names))
            left = iter([*names[1:], "done"])
            yield lambda: progress.update(task, advance=1, description=next(left))

    return shown()


def _table(found: dict[str, Any]) -> str:
    width = max(len(name) for name in found)
    return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in found.items())


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "  ".join(f"{name} {_shown(item)}" for name, item in value.items())
        case list():
            separator = "; " if any(isinstance(item, list | dict) for item in value) else "  "
            return separator.join(map(_shown, value))
        case None:
            return "-"
    return f"{value:,}"
