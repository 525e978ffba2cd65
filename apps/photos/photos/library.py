"""The library of a tenant: a SQLite database in its own folder. Each change is one transaction."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from photos.db import sql

DATABASE = "library.sqlite"
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
WAIT_SECONDS = 30.0
"""How long to wait for another command that writes."""


class Library:
    """A library, used as ``with Library(folder) as library:``.

    - ``create``: create the folder if it is missing. Otherwise a deleted library stays deleted.
    """

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self._thumbnails = folder / ".thumbnails"
        if create:
            self._thumbnails.mkdir(parents=True, exist_ok=True)
        url = f"{(folder / DATABASE).absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        self._db = sqlite3.connect(url, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
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

    def thumbnail(self, sha256: str) -> Path:
        return self._thumbnails / f"{sha256}.jpg"

    def save_thumbnail(self, sha256: str, content: bytes | None) -> None:
        """Write the thumbnail of a photo, whole or not at all. An unreadable photo has none."""
        if content is not None:
            partial = self._thumbnails / f".{sha256}.part"
            partial.write_bytes(content)
            partial.replace(self.thumbnail(sha256))

    def sweep_thumbnails(self) -> None:
        """Delete the thumbnails of photos that no longer exist."""
        used = {row["sha256"] for row in self.rows("sha256_used")}
        for file in self._thumbnails.glob("*.jpg"):
            if file.stem not in used:
                file.unlink(missing_ok=True)
