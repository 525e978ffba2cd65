"""SQL statements, one file each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import LiteralString

_FOLDER = Path(__file__).with_name("sql")


@cache
def query(name: str) -> LiteralString:
    """Return the text of sql/<name>.sql. It is part of the package, so it counts as a literal."""
    text: LiteralString = (_FOLDER / f"{name}.sql").read_text()  # type: ignore[assignment,unused-ignore]
    return text
