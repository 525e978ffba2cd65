"""What the relay of dispatch reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import AsyncConnection

from posthouse.core.request import PRIORITY_NAMES
from posthouse.storage.queries import query


class Ready(NamedTuple):
    """The ready jobs of a queue. ``level`` is None without any; ``front`` changes when jobs are claimed."""

    queue: str
    workers: int
    level: str | None
    jobs: int
    front: str


async def ready_jobs(
    connection: AsyncConnection[tuple[Any, ...]], queues: Sequence[str] | None, most: int
) -> list[Ready]:
    """Return the ready jobs by queue and level, counted up to ``most``; ``queues`` None: of all queues."""
    wanted = {"queues": queues, "most": most, "normal": PRIORITY_NAMES["normal"]}
    cursor = await connection.execute(query("dispatch_ready"), wanted)
    return [Ready(*row) for row in await cursor.fetchall()]
