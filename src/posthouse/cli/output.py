"""Output of commands: tables on a terminal, plain columns in a pipe, JSON on request."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import typer

STATUS_STYLES = {
    "queued": "cyan",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "dead_letter": "bold red",
    "canceled": "yellow",
    "pending": "cyan",
    "in_progress": "blue",
    "completed": "green",
    "skipped": "dim",
    "active": "green",
    "idle": "cyan",
    "busy": "yellow",
    "offline": "red",
    "disabled": "magenta",
    "ok": "green",
    "warning": "yellow",
    "error": "bold red",
}


SHORT_ID = 8


class Cell(NamedTuple):
    """A value of a table. ``short`` replaces the text on a terminal, where columns are narrow."""

    text: str
    style: str = ""
    short: str = ""


def job_cell(job_id: UUID | None) -> Cell:
    """A job's id: on a terminal its last characters, which commands accept."""
    text = "" if job_id is None else str(job_id)
    return Cell(text, "dim", text[-SHORT_ID:])


def status(name: str) -> Cell:
    return Cell(name, STATUS_STYLES.get(name, ""))


def count(number: int, style: str = "") -> Cell:
    return Cell(f"{number:,}", style) if number else Cell("0", "dim")


def dim(text: str) -> Cell:
    return Cell(text, "dim")


def show_json(value: Any) -> None:
    """Print one JSON document. Dataclasses become objects, times ISO 8601."""
    import json

    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def show_result(value: Any, text: str, *, as_json: bool) -> None:
    """Print a value as JSON, or the text that says the same."""
    if as_json:
        show_json(value)
    else:
        print_line(text)


def one_line_json(value: Any) -> str:
    import json

    return json.dumps(value, default=_plain, ensure_ascii=False)


def plain(value: Any) -> str:
    """Return a stored value as one line of JSON; empty for None."""
    return "" if value is None else one_line_json(value)


def _plain(value: Any) -> Any:
    from dataclasses import fields, is_dataclass

    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def show_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    empty: str,
    right: Sequence[str] = (),
    only_plain: Container[str] = (),
) -> None:
    """Print a table on a terminal, aligned columns elsewhere; without rows print ``empty`` to stderr.

    The columns ``only_plain`` are omitted on a terminal, where they do not fit.
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    if not cells:
        typer.echo(empty, err=True)
    elif sys.stdout.isatty():
        from rich.console import Console

        shown = [number for number, head in enumerate(heads) if head not in only_plain]
        narrow = [[row[number] for number in shown] for row in cells]
        Console().print(rich_table([heads[number] for number in shown], narrow, right))
    else:
        _show_plain(heads, cells)


def rich_table(
    heads: Sequence[str], rows: Iterable[Sequence[Cell]], right: Sequence[str], *, lines: bool = True
) -> Any:
    """Return a table for a terminal; without ``lines`` it is its head and its rows only."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if lines else None, header_style="bold", pad_edge=False, padding=(0, 1))
    for head in heads:
        is_key = head in {"id", "kind", "status", "queue", "trigger", "worker"}
        table.add_column(head, justify="right" if head in right else "left", no_wrap=is_key)
    for row in rows:
        table.add_row(*(Text(cell.short or cell.text, style=cell.style) for cell in row))
    return table


def _show_plain(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    lines = [list(heads), *([_one_line(cell.text) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def show_fields(pairs: Iterable[tuple[str, str | Cell]]) -> None:
    """Print names and values, one per line; empty values are omitted."""
    shown = [(name, cell if isinstance(cell, Cell) else Cell(cell)) for name, cell in pairs]
    shown = [(name, cell) for name, cell in shown if cell.text]
    width = max((len(name) for name, _ in shown), default=0)
    for name, cell in shown:
        print_line(f"{name:<{width}}  ", style="dim", end="")
        print_line(cell.text.replace("\n", "\n" + " " * (width + 2)), style=cell.style)


def print_line(text: str, *, style: str = "", end: str = "\n", err: bool = False) -> None:
    """Print a line, in colour on a terminal. It is never wrapped, so that it can be copied."""
    stream = sys.stderr if err else sys.stdout
    if not style or not stream.isatty():
        typer.echo(text + end, err=err, nl=False)
        return
    from rich.console import Console

    Console(stderr=err).print(text, style=style, end=end, markup=False, highlight=False, soft_wrap=True)


def format_age(moment: datetime | None, now: datetime) -> str:
    """Return the rough distance from now: ``3 m ago``, ``in 2 h``."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def span(seconds: float | None) -> str:
    """Return a duration in its largest fitting unit."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= 2 * size or (unit != "m" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


SPARKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None]) -> str:
    """Return a one-line chart: the highest value is a full block, zero is a dot."""
    most = max((value for value in values if value), default=0)
    return "".join(
        SPARKS[min(len(SPARKS) - 1, int(value / most * len(SPARKS)))] if value else "·" for value in values
    )


def format_time(moment: datetime | None, now: datetime) -> str:
    """Return a time and its distance: ``2030-01-01 12:00:00+00:00 (in 3 d)``."""
    return f"{moment.isoformat(' ', 'seconds')} ({format_age(moment, now)})" if moment else ""


def first_line(text: str | None, limit: int = 80) -> str:
    line = _one_line(text or "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def last_lines(text: str, most: int = 20) -> str:
    """Return the last lines of a text."""
    lines = escape_terminal(text).rstrip().split("\n")
    return "\n".join(lines if len(lines) <= most else ["…", *lines[-most:]])


def escape_terminal(text: str) -> str:
    """Escape control characters in untrusted text, so that they do not reach the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class ProgressView(Protocol):
    def show(self, left: int, text: str) -> None: ...


class _Lines:
    """Print a line when the counts change."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, left: int, text: str) -> None:
        if left and text != self._last:
            self._last = text
            typer.echo(text, err=True)


class _ProgressBar:
    def __init__(self, progress: Any, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None, text="")
        self._most = 0

    def show(self, left: int, text: str) -> None:
        self._most = max(self._most, left)
        self._progress.update(self._task, total=self._most or 1, completed=self._most - left, text=text)


@contextmanager
def progress_view(name: str) -> Iterator[ProgressView]:
    """Show progress on stderr, so that stdout has only the result."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _ProgressBar(progress, name)
