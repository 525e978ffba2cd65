"""SQL statements of the application, one file each in sql/."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    return files("calls").joinpath("sql", f"{name}.sql").read_text()
