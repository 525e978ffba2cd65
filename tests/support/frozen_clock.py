"""A clock of the database that stands still between the steps of a test.

The one of ``posthouse.testing`` goes on: when the machine pauses, it passes a limit that a test stays below.
"""

from __future__ import annotations

from datetime import timedelta

from psycopg import sql


class FrozenClock:
    """Freezes the clock of the connection's database, which its fixture resets after the test."""

    def __init__(self, connection):
        self._connection = connection
        (self._now,) = connection.execute("select clock_timestamp()").fetchone()
        self.advance(0)

    def advance(self, seconds):
        self._now += timedelta(seconds=seconds)
        self._connection.execute(
            sql.SQL(
                "create or replace function posthouse.now() returns timestamptz "
                "language sql volatile parallel safe as {}"
            ).format(sql.Literal(f"select timestamptz '{self._now.isoformat()}'"))
        )
