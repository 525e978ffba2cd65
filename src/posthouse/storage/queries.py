"""Read the .sql files beside this module: one statement per file, named after it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """Return the statement in sql/<name>.sql."""
    return (files("posthouse.storage") / "sql" / f"{name}.sql").read_text()
