"""Progress of long operations: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import typer


class Shown(Protocol):
    def show(self, left: int, told: str) -> None: ...


class _Lines:
    """Print a line when the counts change."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, left: int, told: str) -> None:
        if left and told != self._last:
            self._last = told
            typer.echo(told, err=True)


class _Bar:
    def __init__(self, progress: Any, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None, told="")
        self._most = 0

    def show(self, left: int, told: str) -> None:
        self._most = max(self._most, left)
        self._progress.update(self._task, total=self._most or 1, completed=self._most - left, told=told)


@contextmanager
def shown_progress(name: str) -> Iterator[Shown]:
    """Show progress on stderr, so that stdout has only the result."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bar(progress, name)
