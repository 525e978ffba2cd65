"""Renew leases on a connection that also holds the worker's liveness lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from psycopg import Connection

from posthouse.storage.connect import connect_sync
from posthouse.storage.queries import calling, query
from posthouse.waiting import until_readable


class DatabasePulse:
    def __init__(self, connection: Connection[Any], worker_id: UUID, lease_seconds: float) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self.watched = self._watch()

    def _watch(self) -> bool:
        """Take the liveness lock, unless a pooler would share the session."""
        backend = self._connection.execute("select pg_backend_pid()").fetchone()
        if not backend or backend[0] != self._connection.info.backend_pid:
            return False
        self._connection.execute(calling("watch", "worker"), {"worker": self._worker_id})
        return True

    def beat(self, ids: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, str]]:
        held = ["{" + ",".join(texts) + "}" for texts in (ids, tokens)]
        rows = self._connection.execute(
            query("heartbeat"), (self._worker_id, *held, self._lease_seconds), binary=True
        ).fetchall()
        return [(raw_id.hex(), verdict) for raw_id, verdict in rows]

    def wait(self, wakeup: int, seconds: float) -> None:
        connection = self._connection.fileno()
        if connection in until_readable(seconds, connection, wakeup):
            self._connection.execute("select")  # unexpected data: most likely the end of the session


@contextmanager
def database_pulse(url: str, worker_id: UUID, lease_seconds: float) -> Iterator[DatabasePulse]:
    with connect_sync(url, "heartbeat") as connection:
        yield DatabasePulse(connection, worker_id, lease_seconds)
