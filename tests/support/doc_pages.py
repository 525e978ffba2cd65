"""The documentation as data: pages, code blocks, headings, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"^\*Not run: (.+)\*$")
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TITLED_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_IMAGE_SOURCE = re.compile(r'<img[^>]+src="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block. ``line`` is that of its first line of content, counted from 1."""

    line: int
    language: str
    text: str
    not_run: str = ""

    @property
    def file_name(self) -> str | None:
        """A block that opens with a comment like ``# shop.py`` is the content of that file."""
        match = re.match(r"# ([\w.]+\.(?:py|toml))\n", self.text)
        return match[1] if match else None


def pages() -> list[Path]:
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text().splitlines()
    start: int | None = None
    language = ""
    for number, line in enumerate(lines, start=1):
        if start is None and (opening := _FENCE.match(line)):
            start, language = number, opening[1]
        elif start is not None and line == "```":
            text = "\n".join(lines[start : number - 1]) + "\n"
            found.append(Block(start + 1, language, text, _reason(lines[: start - 1])))
            start = None
    assert start is None, f"{name_of(page)}: the block in line {start} is never closed"
    return found


def _reason(before: list[str]) -> str:
    """Why the block after these lines is not run, if the paragraph right before it says so."""
    paragraph = next((line for line in reversed(before) if line.strip()), "")
    match = _NOT_RUN.match(paragraph)
    return match[1] if match else ""


def prose(page: Path) -> list[tuple[int, str]]:
    """The numbered lines outside of code blocks."""
    inside = False
    found = []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            found.append((number, line))
    return found


def anchors(page: Path) -> set[str]:
    """The names that a link to a heading of this page may use, made as GitHub makes them."""
    found: set[str] = set()
    for _, line in prose(page):
        if match := _HEADING.match(line):
            text = re.sub(r"[^\w\- ]", "", match[2].lower()).replace(" ", "-")
            found.add(next(name for name in _numbered(text) if name not in found))
    return found


def _numbered(name: str):
    yield name
    number = 0
    while True:
        number += 1
        yield f"{name}-{number}"


def links(page: Path) -> list[tuple[int, str]]:
    """Every link target with its line."""
    return [
        (number, target)
        for number, line in prose(page)
        for pattern in (_LINK, _IMAGE_SOURCE)
        for target in pattern.findall(re.sub(r"`[^`]*`", "", line))
    ]


def titled_links(page: Path) -> list[tuple[int, str, str]]:
    """Every link with its line, its text and its target."""
    return [
        (number, title, target)
        for number, line in prose(page)
        for title, target in _TITLED_LINK.findall(line)
    ]


def table_under(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    lines = [line for _, line in prose(page)]
    index = next(i for i, line in enumerate(lines) if line.lstrip("# ") == heading and line.startswith("#"))
    rows: list[list[str]] = []
    for line in lines[index + 1 :]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]
