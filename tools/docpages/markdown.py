"""The little Markdown that the pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by tools/reference.py from {source}. Edit that, not this. -->"


def opening(title: str, source: str) -> list[str]:
    return [f"# {title}", "", GENERATED.format(source=source), ""]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_row(head), _row(["---"] * len(head))]
    return [*lines, *(_row([cell.replace("|", "\\|") for cell in row]) for row in rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def text(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
