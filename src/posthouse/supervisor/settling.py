"""Settles the jobs of a worker whose process was killed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from posthouse.settings import Settings
from posthouse.storage.connections import retry_pause
from posthouse.worker.backend import AWAY, REFUSED, Backend
from posthouse.worker.postgres import Direct

_log = logging.getLogger("posthouse.supervisor")
_UNSETTLED: tuple[type[Exception], ...] = (TimeoutError, *REFUSED)


class Settling:
    """Ends workers in the database, or through the server; a keeper rescues the jobs if that fails."""

    def __init__(self, connect: Callable[[UUID], Backend], crash_limit: int) -> None:
        self._connect = connect
        self._crash_limit = crash_limit

    @classmethod
    def direct(cls, url: str, settings: Settings) -> Settling:
        return cls(lambda worker_id: Direct(url, worker_id, settings), settings.crash_limit)

    @classmethod
    def remote(cls, settings: Settings) -> Settling:
        from posthouse.worker.remote import Remote  # noqa: PLC0415 - an extra; now, because a stop has no time

        return cls(lambda worker_id: Remote(worker_id, settings), settings.crash_limit)

    async def end_worker(
        self, worker_id: UUID, blockers: Sequence[UUID] | None, error: Mapping[str, Any], *, within: float
    ) -> None:
        """Count a crash for the blockers (None: for all jobs of the worker) and release its other jobs."""
        backend = self._connect(worker_id)
        leases = backend.leases()
        try:
            async with asyncio.timeout(within):
                await self._persistently(leases.end_worker, blockers, error)
        except _UNSETTLED as failure:
            reason = str(failure) or f"no answer within {within:g} s"
            _log.warning("jobs not settled, a keeper will rescue them: worker_id=%s: %s", worker_id, reason)
        finally:
            await leases.close()
            await backend.close()

    async def _persistently(
        self, end: Callable[..., Any], blockers: Sequence[UUID] | None, error: Mapping[str, Any]
    ) -> None:
        failures = 0
        while True:
            try:
                await end(blockers, error, self._crash_limit)
            except AWAY:
                await asyncio.sleep(retry_pause(failures))
                failures += 1
            else:
                return
