"""Read the .sql files beside this module: one statement per file, named after it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from posthouse.storage.columns import expand_columns


@cache
def query(name: str) -> str:
    """Return the statement in sql/<name>.sql."""
    return expand_columns((files("posthouse.storage") / "sql" / f"{name}.sql").read_text())
