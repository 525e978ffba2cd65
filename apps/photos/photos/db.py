"""The statements of the application, one file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    """Return the statement in ``sql/{name}.sql``."""
    return (files("photos") / "sql" / f"{name}.sql").read_text()
