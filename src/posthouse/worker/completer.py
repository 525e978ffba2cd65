"""Write the outcomes of jobs. While one batch is written the next one is collected; there is no timer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from posthouse.core.states import Event
from posthouse.storage.leases import Settlement, Success
from posthouse.waiting import Backoff
from posthouse.worker.backend import REJECTED, UNREACHABLE, LeaseStore

_log = logging.getLogger("posthouse.worker")

MAX_BATCH = 1000
Report = TypeVar("Report", Success, Settlement)


class Completer:
    """The background writer of outcomes."""

    def __init__(self, leases: LeaseStore, on_lost: Callable[[UUID], None]) -> None:
        self._leases = leases
        self._on_lost = on_lost
        self._successes: list[Success] = []
        self._settlements: list[Settlement] = []
        self._wakeup = asyncio.Event()
        self._writing = 0

    @property
    def backlog(self) -> int:
        return len(self._successes) + len(self._settlements) + self._writing

    def succeed(self, report: Success) -> None:
        self._successes.append(report)
        self._wakeup.set()

    def settle(self, report: Settlement) -> None:
        self._settlements.append(report)
        self._wakeup.set()

    async def run(self) -> None:
        """Write until canceled. While Postgres is unreachable, reports are retried, which is always safe."""
        while True:
            await self._wakeup.wait()
            await self._flush()
            if not self._successes and not self._settlements:
                self._wakeup.clear()

    async def drain(self) -> None:
        """Wait until everything reported so far is written."""
        while self.backlog:
            await asyncio.sleep(0.005)

    async def _flush(self) -> None:
        successes, self._successes = self._successes[:MAX_BATCH], self._successes[MAX_BATCH:]
        settlements, self._settlements = (
            self._settlements[:MAX_BATCH],
            self._settlements[MAX_BATCH:],
        )
        self._writing = len(successes) + len(settlements)
        if successes:
            await self._write(self._leases.succeed, successes)
        if settlements:
            await self._write(self._leases.settle, settlements)
        self._writing = 0

    async def _write(
        self, write: Callable[[Sequence[Report]], Awaitable[list[UUID]]], reports: list[Report]
    ) -> None:
        backoff = Backoff()
        while True:
            try:
                for job_id in await write(reports):
                    self._on_lost(job_id)
            except UNREACHABLE:
                await backoff.sleep()
            except REJECTED as error:
                await self._isolate(write, reports, error)
                return
            else:
                return

    async def _isolate(
        self,
        write: Callable[[Sequence[Report]], Awaitable[list[UUID]]],
        reports: list[Report],
        error: Exception,
    ) -> None:
        """Find the report that Postgres rejects by halving the batch, and write the others."""
        if len(reports) > 1:
            middle = len(reports) // 2
            await self._write(write, reports[:middle])
            await self._write(write, reports[middle:])
            return
        report = reports[0]
        reason = str(error).partition("\n")[0]  # the following lines would show the whole row
        _log.error("outcome cannot be stored job=%s: %s", report.id, reason)
        if isinstance(report, Success):
            detail = {"type": "Unstorable", "message": f"the result cannot be stored: {reason}"}
            await self._write(
                self._leases.settle,
                [Settlement(report.id, report.token, Event.EXHAUST, "failed", None, detail)],
            )
