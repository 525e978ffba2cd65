"""The backend of a worker with a database connection."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from uuid import UUID

from posthouse.dispatch import Claimant, Notices, Reader, redis_of, require
from posthouse.settings import Settings
from posthouse.storage.leases import Leases
from posthouse.storage.notebook import Notebook
from posthouse.storage.pools import Pools
from posthouse.storage.pulse import DatabasePulse, database_pulse
from posthouse.worker.backend import Hearing
from posthouse.worker.listener import Listener, RelayedListener
from posthouse.worker.shelf import DirectShelf


class Direct:
    def __init__(self, url: str, worker_id: UUID, settings: Settings) -> None:
        self.process_url: str | None = url
        self._url = url
        self._direct_url = settings.direct_url or url
        self._settings = settings
        self._worker_id = worker_id
        self._lease_seconds = settings.lease_seconds
        self._redis = redis_of(settings)
        self.readers: list[Reader] = []

    def leases(self) -> Leases:
        return Leases(self._url, self._worker_id, self._lease_seconds, self._direct_url)

    def notebook(self) -> Notebook:
        return Notebook(self._url, self._lease_seconds)

    def pools(self) -> Pools:
        return Pools(self._url)

    def shelf(self) -> DirectShelf:
        return DirectShelf(self._url, self._settings)

    def pulse(self) -> AbstractContextManager[DatabasePulse]:
        return database_pulse(self._direct_url, self._worker_id, self._lease_seconds)

    def listener(self, queues: set[str], tell: Hearing) -> Listener | RelayedListener:
        redis = self._redis
        listener = Listener(self._direct_url, self._worker_id, queues, tell, ready=redis is None)
        if redis is None:
            return listener
        return RelayedListener(listener, Notices(redis), lambda: self.readers[0])

    async def dispatch(self, claimants: Sequence[Claimant]) -> Sequence[Reader]:
        redis = self._redis
        if redis is None:
            return ()
        if self._settings.dispatch == "redis":
            await require(redis)
        falls_back = self._settings.dispatch == "hybrid"
        self.readers = [
            Reader(redis, claimant, f"{self._worker_id}-{number}", falls_back=falls_back)
            for number, claimant in enumerate(claimants, 1)
        ]
        return self.readers

    async def close(self) -> None:
        """Close Redis. Each other component closes its own connection."""
        for reader in self.readers:
            await reader.close()
        if self._redis is not None:
            await self._redis.close()
