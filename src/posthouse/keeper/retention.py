"""Lets go of what has been kept long enough, step by step: each transaction is short and locks little."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from psycopg.errors import DeadlockDetected, LockNotAvailable

from posthouse.storage.connect import Line
from posthouse.storage.reading import Db
from posthouse.storage.retention import (
    Due,
    clear_detached,
    copy_kept,
    count_pages,
    delete_old,
    detach,
    drop_detached,
    plan,
    purge_pages,
    swap_kept,
)

T = TypeVar("T")
Told = Callable[[Due, float], None]

TRIES = 5
TRY_PAUSE = 0.2
SHORTEST_REST = 0.01


class PageStep(Protocol):
    """Works on some pages from this one on; returns the page to go on with."""

    def __call__(self, connection: Db, *, page: int) -> Awaitable[int | None]: ...


class Busy(Exception):
    """Somebody reads or writes the table all the time: the next round tries again."""


def _untold(due: Due, share: float) -> None:
    del due, share


class Retention:
    """One round of it. ``rest``: how long to pause after each step, as a share of what it took, so that a
    long purge leaves the disk and autovacuum room. ``told`` hears what share of each thing is done.
    """

    def __init__(
        self, line: Line, days: Mapping[str, float], *, rest: float = 0.0, told: Told = _untold
    ) -> None:
        self._line = line
        self._days = days
        self._rest = rest
        self._told = told
        self.counts: Counter[str] = Counter(dropped=0, shrunk=0, deleted=0, busy=0)

    async def run(self) -> dict[str, int]:
        """Does what is due; a table that is busy is left for the next round."""
        busy: set[str] = set()
        for due in await self._do(lambda c: plan(c, self._days)):
            if due.relation in busy:
                continue
            try:
                await self._carry_out(due)
            except (Busy, LockNotAvailable, DeadlockDetected):
                busy.add(due.relation)
                self.counts["busy"] += 1
            self._told(due, 1.0)
        return dict(self.counts)

    async def _carry_out(self, due: Due) -> None:
        match due.action:
            case "drop":
                if await self._insist(lambda c: detach(c, due.name)):
                    await self._finish(due, f"{due.name}_detached")
            case "shrink":
                await self._shrink(due)
            case "purge":
                await self._purge(due)
            case "delete":
                await self._delete(due)
            case "finish":
                await self._finish(due, due.name)

    async def _shrink(self, due: Due) -> None:
        await self._insist(lambda c: copy_kept(c, due.name, due.tenants), missing=None)
        if await self._insist(lambda c: swap_kept(c, due.name, due.tenants)):
            self.counts["shrunk"] += 1
            await self._finish(due, f"{due.name}_detached", dropped=0)

    async def _finish(self, due: Due, name: str, *, dropped: int = 1) -> None:
        """The partition is detached: clears what hangs on its jobs, then drops it."""
        await self._walk(due, name, partial(clear_detached, name=name))
        await self._insist(lambda c: drop_detached(c, name))
        self.counts["dropped"] += dropped

    async def _purge(self, due: Due) -> None:
        async def step(connection: Db, *, page: int) -> int | None:
            rows, following = await purge_pages(connection, due.name, due.tenants, page)
            self.counts["deleted"] += rows
            return following

        await self._walk(due, due.name, step)

    async def _walk(self, due: Due, name: str, step: PageStep) -> None:
        """Goes through a table, some pages at a time."""
        page: int | None = 0
        pages = await self._do(lambda c: count_pages(c, name))
        while page is not None:
            page = await self._step(partial(step, page=page))
            self._told(due, (page or pages) / max(1, pages))

    async def _delete(self, due: Due) -> None:
        while rows := await self._step(lambda c: delete_old(c, due.name, self._days)):
            self.counts["deleted"] += rows

    async def _insist(self, work: Callable[[Db], Awaitable[T]], *, missing: bool | None = False) -> T:
        """Tries a few times to get what somebody else has locked. ``missing`` is the answer that says so."""
        for _ in range(TRIES):
            answer = await self._do(work)
            if answer is not missing:
                return answer
            await asyncio.sleep(TRY_PAUSE)
        raise Busy

    async def _step(self, work: Callable[[Db], Awaitable[T]]) -> T:
        started = time.monotonic()
        answer = await self._do(work)
        if self._rest:
            await asyncio.sleep(max(SHORTEST_REST, self._rest * (time.monotonic() - started)))
        return answer

    async def _do(self, work: Callable[[Db], Awaitable[T]]) -> T:
        return await self._line.run(work)
