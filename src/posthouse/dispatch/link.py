"""One connection to Redis for one task.

The client of redis-py takes a connection from its pool for each request, counts, traces and converts: a PING
costs 0.25 ms of CPU time, and 0.11 ms on a connection of its own. Both ends of a hint gain from this, and so
does the time until a job starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

from posthouse.dispatch.connection import ANSWER_SECONDS, Redis

Command: TypeAlias = Sequence[str | bytes | int]

EXPECTED = ("NOGROUP", "UNBLOCKED", "BUSYGROUP", "no such key")
"""Errors that say something about a stream. After any other, the connection is opened again: its server may
have become a replica, or the slot may have moved.
"""


class Link:
    """Connects when it is used, and again after a failure. Requests of several tasks wait for each other."""

    def __init__(self, redis: Redis, anchor: str) -> None:
        """``anchor``: a key. In a cluster, the connection is to the server of this key."""
        self._redis = redis
        self._anchor = anchor
        self._connection: Any = None
        self._owed = 0
        self._lock = asyncio.Lock()

    async def request(self, *commands: Command, seconds: float = ANSWER_SECONDS) -> list[Any]:
        """Send the commands together and return their responses."""
        return await self._redis.run(self._exchange(commands), seconds)

    async def send(self, *commands: Command) -> None:
        """Send the commands. Their responses are read, and ignored, with those of the next request."""
        await self._redis.run(self._exchange(commands, wait=False))

    async def messages(self, channel: str) -> AsyncIterator[str | None]:
        """Subscribe to a channel. Yield None when this is done, then each message, until Redis fails."""
        await self.request(("SUBSCRIBE", channel))
        yield None
        while True:
            _, _, text = await self._redis.run(self._connection.read_response(), None)
            yield text

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def _exchange(self, commands: Sequence[Command], *, wait: bool = True) -> list[Any]:
        async with self._lock:
            if self._connection is None:
                self._connection = await self._open()
            try:
                if not self._connection.is_connected:
                    await self._connection.connect()  # to the current master, behind a Sentinel
                await self._connection.send_packed_command(
                    self._connection.pack_commands(commands), check_health=False
                )
                self._owed += len(commands)
                if not wait:
                    return []
                return await self._responses(len(commands))
            except BaseException:  # a cancellation too: the next response would be that of another request
                await self._reset()
                raise

    async def _responses(self, last: int) -> list[Any]:
        found = [await self._response() for _ in range(self._owed)][-last:]
        self._owed = 0
        for response in found:
            if isinstance(response, Exception) and not str(response).startswith(EXPECTED):
                raise response
        return found

    async def _response(self) -> Any:
        try:
            return await self._connection.read_response()
        except self._redis.error_response as error:
            return error

    async def _open(self) -> Any:
        client = self._redis.client
        if not self._redis.is_cluster:
            return await client.connection_pool.get_connection()
        await client.initialize()
        return client.get_node_from_key(self._anchor).acquire_connection()

    async def _reset(self) -> None:
        """Disconnect. The next request connects again, in a cluster perhaps to another server."""
        self._owed = 0
        await self._connection.disconnect(nowait=True)
        if self._redis.is_cluster:
            self._connection = None
            await self._redis.client.aclose()
