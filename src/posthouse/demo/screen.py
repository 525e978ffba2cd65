"""Where a demo shows what it does: bars on a terminal, lines elsewhere. Stdout holds what it found alone."""

from __future__ import annotations

import sys
from typing import Any, Self

import typer


class Screen:
    """Named bars. Each is a line of its own, kept when it is full."""

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
        """Sets the bar of this name; it appears when it is first set."""
        told = told or f"{done:.0f} of {total:.0f}"
        if self._progress is None:
            if self._said.get(name) != told:
                self._said[name] = told
                self.say(f"{name}: {told}")
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, told="")
        self._progress.update(self._bars[name], total=total, completed=done, told=told)
