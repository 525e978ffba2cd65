"""LISTEN with reconnection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, Notify, sql

from posthouse.storage.connect import behind_pooler, connect_async, retry_pause

Begun = Callable[[AsyncConnection[tuple[Any, ...]]], Awaitable[None]]


def _nothing() -> None:
    pass


async def listen(
    url: str,
    name: str,
    channels: Sequence[str],
    *,
    begun: Begun,
    heard: Callable[[str, str], None],
    lost: Callable[[], None] = _nothing,
) -> None:
    """Listen on the channels until canceled; return at once behind a pooler, which keeps no session.

    ``begun`` is called after each (re)connection: earlier notifications were missed. ``lost`` is called when
    the connection ends.
    """
    failures = 0

    async def once() -> bool:
        nonlocal failures
        try:
            async with await connect_async(url, name) as connection:
                if await behind_pooler(connection):
                    return False
                for channel in channels:
                    await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                await begun(connection)
                failures = 0
                async for notices in _notices(connection):
                    for notice in notices:
                        heard(notice.channel, notice.payload)
        finally:
            lost()
        return True

    while True:
        try:
            if not await once():
                return
        except psycopg.Error:
            await asyncio.sleep(retry_pause(failures))
            failures += 1


async def _notices(connection: AsyncConnection[Any]) -> AsyncIterator[list[Notify]]:
    """Yield notifications as they come, and sleep in between.

    psycopg's own wait wakes up ten times a second on every connection that listens, and takes about 0.2 ms
    longer for each notification.
    """
    yield [notice async for notice in connection.notifies(timeout=0)]  # those that came with results
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
