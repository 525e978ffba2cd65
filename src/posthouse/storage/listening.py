"""LISTEN, over whatever breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

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
    """Hears the channels until canceled; returns at once behind a pooler, which keeps no session.

    ``begun`` is called whenever it listens again: what came before was missed. ``lost``: it does not listen
    any more.
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
                async for notice in connection.notifies():
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
