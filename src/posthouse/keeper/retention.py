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
from posthouse.storage.keeper import (
    RetentionStep,
    copy_retained_rows,
    create_partitions,
    delete_detached_job_data,
    delete_old_artifacts,
    delete_old_rows,
    delete_stale_rows,
    delete_tenant_rows,
    detach_partition,
    drop_detached_partition,
    retention_plan,
    swap_partition,
    table_page_count,
)
from posthouse.storage.queries import Db

T = TypeVar("T")
OnProgress = Callable[[RetentionStep, float], None]

TRIES = 5
TRY_PAUSE = 0.2
MIN_PAUSE = 0.01


class PageStep(Protocol):
    """A function that processes some pages, starting with ``page``, and returns the next page."""

    def __call__(self, connection: Db, *, page: int) -> Awaitable[int | None]: ...


class TableBusy(Exception):
    """The table is in use all the time; the next run tries again."""


def _ignore_progress(due: RetentionStep, share: float) -> None:
    del due, share


class RetentionRun:
    """One run of retention.

    ``pause_ratio`` is the pause after each step, as a share of the step's duration; it leaves time for
    autovacuum and other I/O. ``on_progress`` is called with the progress of each item.
    """

    def __init__(
        self,
        connection: ReconnectingConnection,
        days: Mapping[str, float],
        *,
        pause_ratio: float = 0.0,
        on_progress: OnProgress = _ignore_progress,
    ) -> None:
        self._connection = connection
        self._days = days
        self._pause_ratio = pause_ratio
        self._on_progress = on_progress
        self.counts: Counter[str] = Counter(dropped=0, shrunk=0, deleted=0, busy=0)

    async def run(self) -> dict[str, int]:
        """Process all due items. A table that is in use is left to the next run."""
        busy: set[str] = set()
        for due in await self._do(lambda c: retention_plan(c, self._days)):
            if due.relation in busy:
                continue
            try:
                await self._apply(due)
            except (TableBusy, LockNotAvailable, DeadlockDetected):
                busy.add(due.relation)
                self.counts["busy"] += 1
            self._on_progress(due, 1.0)
        await self._delete_artifacts()
        return dict(self.counts)

    async def _delete_artifacts(self) -> None:
        """Delete artifacts that are kept for a shorter time than their jobs."""
        days = self._days.get("artifacts")
        while days and (rows := await self._step(lambda c: delete_old_artifacts(c, days))):
            self.counts["deleted"] += rows

    async def _apply(self, due: RetentionStep) -> None:
        match due.action:
            case "drop":
                if await self._retry_while_locked(lambda c: detach_partition(c, due.name)):
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
        await self._retry_while_locked(lambda c: copy_retained_rows(c, due.name, due.tenants), missing=None)
        if await self._retry_while_locked(lambda c: swap_partition(c, due.name, due.tenants)):
            self.counts["shrunk"] += 1
            await self._finish(due, f"{due.name}_detached", dropped=0)

    async def _finish(self, due: RetentionStep, name: str, *, dropped: int = 1) -> None:
        """Delete the rows that belong to the jobs of a detached partition, then drop it."""
        await self._for_each_page(due, name, partial(delete_detached_job_data, name=name))
        await self._retry_while_locked(lambda c: drop_detached_partition(c, name))
        self.counts["dropped"] += dropped

    async def _purge(self, due: RetentionStep) -> None:
        async def step(connection: Db, *, page: int) -> int | None:
            rows, following = await delete_tenant_rows(connection, due.name, due.tenants, page)
            self.counts["deleted"] += rows
            return following

        await self._for_each_page(due, due.name, step)

    async def _for_each_page(self, due: RetentionStep, name: str, step: PageStep) -> None:
        """Process a table, some pages at a time, and report the progress."""
        page: int | None = 0
        pages = await self._do(lambda c: table_page_count(c, name))
        while page is not None:
            page = await self._step(partial(step, page=page))
            self._on_progress(due, (page or pages) / max(1, pages))

    async def _delete(self, due: RetentionStep) -> None:
        while rows := await self._step(lambda c: delete_old_rows(c, due.name, self._days)):
            self.counts["deleted"] += rows

    async def _retry_while_locked(
        self, work: Callable[[Db], Awaitable[T]], *, missing: bool | None = False
    ) -> T:
        """Call ``work`` until it can lock the table, at most ``TRIES`` times.

        ``missing`` is the result that means that the table is in use.
        """
        for _ in range(TRIES):
            result = await self._do(work)
            if result is not missing:
                return result
            await asyncio.sleep(TRY_PAUSE)
        raise TableBusy

    async def _step(self, work: Callable[[Db], Awaitable[T]]) -> T:
        started = time.monotonic()
        result = await self._do(work)
        if self._pause_ratio:
            await asyncio.sleep(max(MIN_PAUSE, self._pause_ratio * (time.monotonic() - started)))
        return result

    async def _do(self, work: Callable[[Db], Awaitable[T]]) -> T:
        return await self._connection.run(work)


RETENTION_INTERVAL_SECONDS = 600.0
PAUSE_RATIO = 1.0
"""The pause after each step, as a share of the step's duration."""


class RetentionService:
    """The step that creates partitions and deletes old data.

    It has its own connection, which is closed after each run, so that no other step waits for a long run.
    """

    name = "retention"

    def __init__(self, connection: ReconnectingConnection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings

    async def run_once(self) -> dict[str, int]:
        try:
            created = await self._connection.run(create_partitions)
            counts = await RetentionRun(
                self._connection, self._settings.kept_days(), pause_ratio=PAUSE_RATIO
            ).run()
            stale = await self._connection.run(lambda c: delete_stale_rows(c, self._settings.retention_days))
        finally:
            await self._connection.close()
        return {"created": created, **counts, "stale": stale}

    def pause(self) -> float:
        return RETENTION_INTERVAL_SECONDS
