"""The statements, one a file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import LiteralString

_FOLDER = Path(__file__).with_name("sql")


@cache
def query(name: str) -> LiteralString:
    """The text of sql/<name>.sql: it ships with the code, so it is as good as a literal."""
    text: LiteralString = (_FOLDER / f"{name}.sql").read_text()  # type: ignore[assignment,unused-ignore]
    return text
