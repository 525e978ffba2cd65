"""Records in the database that this server runs, so that leases of remote workers are judged fairly.

Remote workers renew their leases through a server. Without one they cannot, and their leases expire although
they are healthy. The keeper judges such leases only after a server has been running for a grace period.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection

from posthouse.storage.connect import Running
from posthouse.storage.queries import calling
from posthouse.waiting import finish_within

_log = logging.getLogger("posthouse.server")

BEAT_SECONDS = 5.0
"""A third of the gap after which posthouse.server_beat starts the server's time anew."""

LEAVE_SECONDS = 0.5


class Presence:
    """The heartbeat of a server."""

    def __init__(self, line: Running) -> None:
        self._line = line
        self._id = uuid4()

    async def run(self) -> None:
        while True:
            try:
                await self.beat()
            except psycopg.Error as error:
                _log.warning("server heartbeat failed, retrying in %g s: %s", BEAT_SECONDS, error)
            await asyncio.sleep(BEAT_SECONDS)

    async def beat(self) -> None:
        await self._send(
            "server_beat", {"id": self._id, "hostname": socket.gethostname(), "pid": os.getpid()}
        )

    async def leave(self) -> None:
        with suppress(psycopg.Error):  # without it the row is outdated in 15 s
            await finish_within(LEAVE_SECONDS, self._send("server_leave", {"id": self._id}))

    async def _send(self, name: str, fields: dict[str, Any]) -> None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            await connection.execute(calling(name, *fields), fields)

        await self._line.run(work)
