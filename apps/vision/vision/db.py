"""SQL statements of the application, one file each in sql/."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import psycopg


@cache
def sql(name: str) -> str:
    return files("vision").joinpath("sql", f"{name}.sql").read_text()


def run(db: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> None:
    db.execute(sql(name), parameters)
