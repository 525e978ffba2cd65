"""LISTEN and NOTIFY: listeners that reconnect, and requests to be notified."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, Notify, sql

from posthouse.storage.connections import ReconnectingConnection, connect_async, is_pooled
from posthouse.storage.queries import Db, query
from posthouse.waiting import Backoff

OnListening = Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[None]]


class NotificationListener:
    """A listener on channels that has its own connection, and reconnects.

    ``on_listening`` is called after each (re)connection, before which notifications may have been missed.
    ``on_disconnect`` is called when the connection ends.
    """

    def __init__(
        self,
        url: str,
        name: str,
        channels: Sequence[str],
        on_notification: Callable[[str, str], None],
        *,
        on_listening: OnListening | None = None,
        on_disconnect: Callable[[], None] | None = None,
    ) -> None:
        self._url = url
        self._name = name
        self._channels = channels
        self._on_notification = on_notification
        self._on_listening = on_listening
        self._on_disconnect = on_disconnect
        self._backoff = Backoff()
        self.is_listening = False
        self.is_supported = True
        """False behind a pooler, which keeps no session."""

    async def run(self) -> None:
        """Listen until canceled; return at once behind a pooler."""
        while self.is_supported:
            try:
                await self._listen()
            except psycopg.Error:
                await self._backoff.sleep()

    async def _listen(self) -> None:
        try:
            async with await connect_async(self._url, self._name) as connection:
                if await is_pooled(connection):
                    self.is_supported = False
                    return
                await listen(connection, *self._channels)
                if self._on_listening is not None:
                    await self._on_listening(connection)
                self.is_listening = True
                self._backoff.reset()
                async for notices in _notices(connection):
                    for notice in notices:
                        self._on_notification(notice.channel, notice.payload)
        finally:
            self.is_listening = False
            if self._on_disconnect is not None:
                self._on_disconnect()


async def listen(connection: AsyncConnection[Any], *channels: str) -> None:
    """Listen on channels in this session."""
    for channel in channels:
        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))


async def _notices(connection: AsyncConnection[Any]) -> AsyncIterator[list[Notify]]:
    """Yield notifications as they arrive, and sleep in between.

    psycopg's own wait wakes up ten times a second on every listening connection, and takes about 0.2 ms
    longer for each notification.
    """
    yield [notice async for notice in connection.notifies(timeout=0)]  # those that arrived with query results
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    descriptor = connection.fileno()
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            connection.pgconn.consume_input()
            yield list(_received(connection))
    finally:
        loop.remove_reader(descriptor)


def _received(connection: AsyncConnection[Any]) -> Iterator[Notify]:
    while notice := connection.pgconn.notifies():
        yield Notify(notice.relname.decode(), notice.extra.decode(), notice.be_pid)


class WakeupRequests:
    """Requests for wakeups: enqueue notifies only queues with one. Those made by ``request`` expire."""

    def __init__(self, url: str, *, seconds: float) -> None:
        self._connection = ReconnectingConnection(url, "server wakeups")
        self._seconds = seconds
        self._until: dict[str, float] = {}
        self._held: set[str] = set()
        self._held_on: AsyncConnection[Any] | None = None

    async def request(self, queues: Iterable[str]) -> None:
        """Request wakeups for the queues. Returns when the request is stored."""
        queues = list(queues)
        self._until.update(dict.fromkeys(queues, time.monotonic() + self._seconds))
        lost = self._held_on is None or self._held_on.closed
        if lost or not self._held.issuperset(queues):
            await self._connection.run(self._hold)

    async def replace(self, queues: set[str]) -> bool:
        """Request wakeups for exactly these queues, until the next call. Return whether some are new."""
        lost = self._held_on is None or self._held_on.closed
        if self._held == queues and not (lost and queues):
            return False
        self._until = dict.fromkeys(queues, math.inf)
        added = lost or not self._held.issuperset(queues)
        await self._connection.run(self._hold)
        return added

    async def _hold(self, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        """Take the locks that are missing and release those that are no longer requested."""
        if connection is not self._held_on:
            self._held, self._held_on = set(), connection
        now = time.monotonic()
        self._until = {queue: until for queue, until in self._until.items() if until >= now}
        new, old = self._until.keys() - self._held, self._held - self._until.keys()
        await connection.execute(query("request_wakeup"), (list(new),))
        await connection.execute(query("cancel_wakeup"), (list(old),))
        self._held = set(self._until)

    async def close(self) -> None:
        await self._connection.close()


POLL_SECONDS = 0.25
MAX_WAIT_SECONDS = 2.0


class LogFollower:
    def __init__(self, connection: Db, job_id: UUID) -> None:
        self._connection = connection
        self._job_id = job_id
        self._listening = False

    async def __aenter__(self) -> Self:
        if await is_pooled(self._connection):
            return self
        await listen(self._connection, "posthouse_log", "posthouse_ended")
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
        """Wait until there may be new lines, or the job may have ended."""
        if not self._listening:
            await asyncio.sleep(POLL_SECONDS)
            return
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            async for notification in self._connection.notifies(timeout=left, stop_after=1):
                if str(self._job_id) in notification.payload:
                    return
