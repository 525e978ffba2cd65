"""Transactions restricted to what the caller may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from posthouse.storage.queries import Db, query


@asynccontextmanager
async def seen_by(connection: Db, tenant: str | None, *, seconds: float) -> AsyncIterator[Db]:
    """Open a transaction that sees the rows of one tenant, or all with None, with a statement timeout.

    Its settings end with it, so that nothing leaks through a pooler.
    """
    async with connection.transaction():
        await connection.execute(
            query("see_as"),
            {"tenant": tenant, "role": "posthouse_tenant", "milliseconds": int(seconds * 1000)},
        )
        yield connection
