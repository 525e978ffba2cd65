"""The connections of a worker without a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

import httpx

from posthouse.dispatch import Claimant, Reader
from posthouse.settings import Settings
from posthouse.storage.pools import Pools
from posthouse.worker.backend import Hearing
from posthouse.worker.remote.leases import RemoteLeases
from posthouse.worker.remote.line import HttpLine, options, warn_of_plain_http
from posthouse.worker.remote.listener import RemoteListener
from posthouse.worker.remote.notebook import RemoteNotebook
from posthouse.worker.remote.pulse import HttpPulse
from posthouse.worker.remote.shelf import RemoteShelf


class Remote:
    process_url: str | None = None

    def __init__(self, worker_id: UUID, settings: Settings) -> None:
        warn_of_plain_http(settings)
        self._worker_id = worker_id
        self._settings = settings
        self._line = HttpLine(settings)

    def leases(self) -> RemoteLeases:
        return RemoteLeases(self._line, self._worker_id, self._settings.lease_seconds)

    def notebook(self) -> RemoteNotebook:
        return RemoteNotebook(self._line, self._worker_id, self._settings.lease_seconds)

    def pools(self) -> Pools:
        return Pools(None)

    def shelf(self) -> RemoteShelf:
        return RemoteShelf(self._line, self._settings.max_artifact_bytes)

    @contextmanager
    def pulse(self) -> Iterator[HttpPulse]:
        """Return the heartbeat connection. A heartbeat without a response is repeated while there is time."""
        seconds = max(1.0, self._settings.lease_seconds / 4)
        with httpx.Client(**{**options(self._settings), "timeout": seconds}) as client:
            yield HttpPulse(client, self._worker_id, self._settings.lease_seconds)

    def listener(self, queues: set[str], tell: Hearing) -> RemoteListener:
        return RemoteListener(self._line, self._worker_id, queues, tell)

    async def dispatch(self, claimants: Sequence[Claimant]) -> Sequence[Reader]:
        """Return no readers: the server wakes remote workers."""
        del claimants
        return ()

    async def close(self) -> None:
        await self._line.close()
