"""The demo's own embedded Postgres, which can be made to crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from posthouse.errors import DatabaseUnavailable
from posthouse.storage.connect import connect_sync
from posthouse.storage.migrate import migrate

if TYPE_CHECKING:
    from posthouse.storage.embedded import EmbeddedPostgres

STOP_SECONDS = 30.0
SETTINGS = {"track_commit_timestamp": "on"}
"""Pauses are measured between commits."""


class Postgres:
    """An embedded Postgres inside a temporary folder."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o711)  # started by root, Postgres runs as another user, who must reach its data
        self._data_dir = folder / "data"
        self._handles: list[EmbeddedPostgres] = []

    def start(self, schema: str) -> str:
        """Create and migrate the database; return its URL."""
        url = self._attach()
        with connect_sync(url, "demo") as connection:
            migrate(connection)
            connection.execute(schema)
        return url

    def crash(self) -> None:
        """Stop Postgres as `pg_ctl stop -m immediate` does: the next start has to recover."""
        from posthouse.storage.embedded.layout import open_layout  # noqa: PLC0415 - an extra
        from posthouse.storage.embedded.probe import ask  # noqa: PLC0415
        from posthouse.storage.embedded.process import is_alive  # noqa: PLC0415
        from posthouse.storage.embedded.waiting import attempts  # noqa: PLC0415

        layout = open_layout(self._data_dir)
        told = False
        for _ in attempts(STOP_SECONDS):
            if not is_alive(layout):
                return
            if not told and (answer := ask(layout)):
                os.kill(answer.postmaster_pid, signal.SIGQUIT)
                told = True
        raise DatabaseUnavailable(f"Postgres did not stop within {STOP_SECONDS:g} s of an immediate shutdown")

    def start_again(self) -> None:
        self._attach()

    def close(self) -> None:
        while self._handles:
            self._handles.pop().close()

    def _attach(self) -> str:
        from posthouse.storage.embedded import ensure  # noqa: PLC0415 - an extra

        handle = ensure(self._data_dir, settings=SETTINGS)
        self._handles.append(handle)
        return handle.url
