"""The progress of a demo: bars on a terminal, lines elsewhere, or reports to the job that runs it."""

from __future__ import annotations

import json
import sys
from typing import Any, Self

import typer


class Screen:
    """Named progress bars on stderr, one per line; a full bar stays visible. Stdout holds only the result."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}
        self._said: dict[str, str] = {}
        self._progress: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - slow to load
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            columns = (
                TextColumn("{task.description:<24}"),
                BarColumn(),
                TextColumn("{task.fields[told]}"),
                TimeElapsedColumn(),
            )
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, text: str) -> None:
        if self._progress is None:
            typer.echo(text, err=True)
        else:
            self._progress.console.print(text, markup=False, highlight=False)

    def show(self, name: str, done: float, total: float, told: str = "") -> None:
        """Set the bar of this name, and add it if it is new."""
        told = told or f"{done:.0f} of {total:.0f}"
        if self._progress is None:
            if self._said.get(name) != told:
                self._said[name] = told
                self.say(f"{name}: {told}")
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, told="")
        self._progress.update(self._bars[name], total=total, completed=done, told=told)


class JobScreen(Screen):
    """Progress as lines on stdout that a worker reads (posthouse.commands.progress): the mean of all bars."""

    def __init__(self) -> None:
        super().__init__()
        self._shares: dict[str, float] = {}
        self._percent = 0.0

    def say(self, text: str) -> None:
        typer.echo(text, err=True)
        self._report(message=text)

    def show(self, name: str, done: float, total: float, told: str = "") -> None:
        told = told or f"{done:.0f} of {total:.0f}"
        if self._said.get(name) == told:
            return
        self._said[name] = told
        self._shares[name] = done / total if total else 1.0
        self._percent = 100 * min(1.0, sum(self._shares.values()) / len(self._shares))
        self._report(step=name, message=told)

    def _report(self, **fields: str) -> None:
        line = json.dumps({"percent": round(self._percent, 1), **fields})
        typer.echo(f"posthouse: {line}")
        sys.stdout.flush()
