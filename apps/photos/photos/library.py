"""The library of a tenant: a SQLite database in its own folder. Each change is one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from photos.db import sql

WAIT_SECONDS = 30.0
"""How long to wait for another command that writes."""


class Library:
    """A library, used as ``with Library(folder) as library:``. The folder is created if missing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(folder / "library.sqlite", timeout=WAIT_SECONDS, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(sql("tables"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def rows(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        with closing(self._db.execute(sql(name), parameters)) as cursor:
            return [dict(row) for row in cursor.fetchall()]

    def change(self, *changes: tuple[str, Sequence[Mapping[str, Any]]]) -> None:
        """Execute statements, each for all of its parameters, in one transaction."""
        self._db.execute("begin immediate")
        try:
            for name, parameters in changes:
                self._db.executemany(sql(name), parameters)
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def pictures(self) -> list[dict[str, Any]]:
        """Return all photos with their tags."""
        return [{**row, "tags": json.loads(row["tags"])} for row in self.rows("pictures_list")]
