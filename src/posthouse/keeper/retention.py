"""Create partitions ahead of time; delete data past its retention in short transactions that lock little."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from psycopg.errors import DeadlockDetected, LockNotAvailable

from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection
from posthouse.storage.maintenance import create_partitions, delete_old_artifacts, tidy
from posthouse.storage.queries import Db
from posthouse.storage.retention import (
    RetentionStep,
    copy_retained_rows,
    count_pages,
    delete_detached_job_data,
    delete_old,
    delete_tenant_rows,
    detach,
    drop_detached_partition,
    plan,
    swap_partition,
)

T = TypeVar("T")
Told = Callable[[RetentionStep, float], None]

TRIES = 5
TRY_PAUSE = 0.2
SHORTEST_REST = 0.01


class PageStep(Protocol):
    """A function that processes some pages, starting with ``page``, and returns the next page."""

    def __call__(self, connection: Db, *, page: int) -> Awaitable[int | None]: ...


class Busy(Exception):
    """The table is in use all the time; the next round tries again."""


def _untold(due: RetentionStep, share: float) -> None:
    del due, share


class RetentionRun:
    """One round of retention.

    ``rest`` is the pause after each step, as a share of the step's duration; it leaves time for autovacuum
    and other I/O. ``told`` is called with the progress of each item.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        days: Mapping[str, float],
        *,
        rest: float = 0.0,
        told: Told = _untold,
    ) -> None:
        self._line = line
        self._days = days
        self._rest = rest
        self._told = told
        self.counts: Counter[str] = Counter(dropped=0, shrunk=0, deleted=0, busy=0)

    async def run(self) -> dict[str, int]:
        """Process all due items. A table that is in use is left to the next round."""
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
        await self._forget_artifacts()
        return dict(self.counts)

    async def _forget_artifacts(self) -> None:
        """Delete artifacts that are kept for a shorter time than their jobs."""
        days = self._days.get("artifacts")
        while days and (rows := await self._step(lambda c: delete_old_artifacts(c, days))):
            self.counts["deleted"] += rows

    async def _carry_out(self, due: RetentionStep) -> None:
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

    async def _shrink(self, due: RetentionStep) -> None:
        await self._insist(lambda c: copy_retained_rows(c, due.name, due.tenants), missing=None)
        if await self._insist(lambda c: swap_partition(c, due.name, due.tenants)):
            self.counts["shrunk"] += 1
            await self._finish(due, f"{due.name}_detached", dropped=0)

    async def _finish(self, due: RetentionStep, name: str, *, dropped: int = 1) -> None:
        """Delete the rows that belong to the jobs of a detached partition, then drop it."""
        await self._walk(due, name, partial(delete_detached_job_data, name=name))
        await self._insist(lambda c: drop_detached_partition(c, name))
        self.counts["dropped"] += dropped

    async def _purge(self, due: RetentionStep) -> None:
        async def step(connection: Db, *, page: int) -> int | None:
            rows, following = await delete_tenant_rows(connection, due.name, due.tenants, page)
            self.counts["deleted"] += rows
            return following

        await self._walk(due, due.name, step)

    async def _walk(self, due: RetentionStep, name: str, step: PageStep) -> None:
        """Process a table, some pages at a time, and report the progress."""
        page: int | None = 0
        pages = await self._do(lambda c: count_pages(c, name))
        while page is not None:
            page = await self._step(partial(step, page=page))
            self._told(due, (page or pages) / max(1, pages))

    async def _delete(self, due: RetentionStep) -> None:
        while rows := await self._step(lambda c: delete_old(c, due.name, self._days)):
            self.counts["deleted"] += rows

    async def _insist(self, work: Callable[[Db], Awaitable[T]], *, missing: bool | None = False) -> T:
        """Call ``work`` until it can lock the table, at most ``TRIES`` times.

        ``missing`` is the result that means that the table is in use.
        """
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


RETENTION_INTERVAL_SECONDS = 600.0
REST = 1.0
"""The pause after each step, as a share of the step's duration."""


class RetentionService:
    """The step that creates partitions and deletes old data.

    It has its own connection, which is closed after each round, so that no other step waits for a long round.
    """

    name = "retainer"

    def __init__(self, line: ReconnectingConnection, settings: Settings) -> None:
        self._line = line
        self._settings = settings

    async def run_once(self) -> dict[str, int]:
        try:
            made = await self._line.run(create_partitions)
            counts = await RetentionRun(self._line, self._settings.kept_days(), rest=REST).run()
            tidied = await self._line.run(lambda c: tidy(c, self._settings.retention_days))
        finally:
            await self._line.close()
        return {"made": made, **counts, "tidied": tidied}

    def pause(self) -> float:
        return RETENTION_INTERVAL_SECONDS
