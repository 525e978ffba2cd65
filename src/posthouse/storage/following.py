"""Wait for new log lines of a job: by LISTEN if the connection allows it, otherwise by polling."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self
from uuid import UUID

from posthouse.storage.connect import behind_pooler
from posthouse.storage.queries import Db, query

POLL_SECONDS = 0.25
LISTENING_SECONDS = 2.0


class Following:
    def __init__(self, connection: Db, job_id: UUID) -> None:
        self._connection = connection
        self._job_id = job_id
        self._listening = False

    async def __aenter__(self) -> Self:
        if await behind_pooler(self._connection):
            return self
        await self._connection.execute("listen posthouse_log")
        await self._connection.execute("listen posthouse_ended")
        await self._connection.execute(query("log_follow"), {"id": self._job_id})
        await self._connection.execute(query("await_endings"))
        self._listening = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._listening or self._connection.broken or self._connection.closed:
            return
        await self._connection.execute(query("log_unfollow"), {"id": self._job_id})
        await self._connection.execute(query("unawait_endings"))
        await self._connection.execute("unlisten posthouse_log")
        await self._connection.execute("unlisten posthouse_ended")

    async def pause(self) -> None:
        """Wait until there may be new lines."""
        if not self._listening:
            await asyncio.sleep(POLL_SECONDS)
            return
        deadline = time.monotonic() + LISTENING_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            async for notification in self._connection.notifies(timeout=left, stop_after=1):
                if str(self._job_id) in notification.payload:
                    return
