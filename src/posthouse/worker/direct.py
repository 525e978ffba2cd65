"""A worker with a database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from uuid import UUID

from posthouse.settings import Settings
from posthouse.storage.leases import Leases
from posthouse.storage.notebook import Notebook
from posthouse.storage.pools import Pools
from posthouse.storage.pulse import DatabasePulse, database_pulse
from posthouse.worker.backend import Hearing
from posthouse.worker.listener import Listener
from posthouse.worker.shelf import DirectShelf


class Direct:
    def __init__(self, url: str, worker_id: UUID, settings: Settings) -> None:
        self.process_url: str | None = url
        self._url = url
        self._direct_url = settings.direct_url or url
        self._settings = settings
        self._worker_id = worker_id
        self._lease_seconds = settings.lease_seconds

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

    def listener(self, queues: set[str], tell: Hearing) -> Listener:
        return Listener(self._direct_url, self._worker_id, queues, tell)

    async def close(self) -> None:
        """Each connection is closed by whoever uses it."""
