"""The backend of a worker with a database connection: Postgres, and Redis for hints if it is configured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from posthouse.dispatch import Claimant, Reader, RelayedNotifications, redis_of, require
from posthouse.errors import RedisUnavailable
from posthouse.settings import Settings
from posthouse.storage.attempts import PostgresAttemptStore
from posthouse.storage.connections import HandlerPools
from posthouse.storage.leases import Leases, PostgresHeartbeatConnection, heartbeat_connection
from posthouse.storage.notifications import NotificationListener
from posthouse.waiting import wait_for_event
from posthouse.worker.artifacts import PostgresArtifactStore
from posthouse.worker.backend import NotificationCallbacks

_log = logging.getLogger("posthouse.worker")

START_SECONDS = 1.0
RETRY_SECONDS = 5.0


class PostgresListener:
    """A listener for notifications of Postgres."""

    def __init__(
        self,
        url: str,
        worker_id: UUID,
        queues: set[str],
        callbacks: NotificationCallbacks,
        *,
        ready: bool = True,
    ) -> None:
        """Create the listener. Without ``ready`` it ignores notifications about ready jobs."""
        channels = ["posthouse_cancel", "posthouse_definitions"]
        if ready:
            channels.append("posthouse_ready")
        self._listener = NotificationListener(
            url,
            "listener",
            channels,
            self.on_notification,
            on_listening=self._on_listening,
            on_disconnect=self._on_disconnect,
        )
        self._worker = str(worker_id)
        self._queues = queues
        self._callbacks = callbacks
        self._ready = ready

    @property
    def is_available(self) -> bool:
        return self._listener.is_supported

    @property
    def listening(self) -> bool:
        return self._listener.is_listening

    async def run(self) -> None:
        await self._listener.run()

    async def _on_listening(self, _: AsyncConnection[Any]) -> None:
        if self._ready:
            self._callbacks.listening()
        self.check_missed()

    def check_missed(self) -> None:
        """Check cancellations and definitions, because notifications may have been missed."""
        self._callbacks.cancel()
        self._callbacks.definitions()

    def _on_disconnect(self) -> None:
        self._callbacks.definitions()  # read again soon, and periodically from then on

    def on_notification(self, channel: str, payload: str) -> None:
        if channel == "posthouse_ready":
            if payload in self._queues:
                self._callbacks.work()
        elif channel == "posthouse_definitions":
            self._callbacks.definitions()
        elif payload == self._worker:
            self._callbacks.cancel()


class RelayedListener:
    """A listener for notifications of the relay while it works, and of Postgres otherwise."""

    def __init__(
        self, listener: PostgresListener, notifications: RelayedNotifications, reader: Callable[[], Reader]
    ) -> None:
        self._listener = listener
        self._notifications = notifications
        self._reader = reader
        self._is_following = False
        self.is_available = True

    @property
    def listening(self) -> bool:
        return self._is_following or self._listener.listening

    async def run(self) -> None:
        relayed = self._reader().relayed
        await wait_for_event(relayed, START_SECONDS)
        while True:
            if relayed.is_set():
                await self._follow_relay()
            await self._listen_until(relayed)

    async def _follow_relay(self) -> None:
        closing = set()

        def close() -> None:
            closing.add(asyncio.create_task(self._notifications.close()))

        self._reader().on_loss = close
        try:
            await self._notifications.follow(self._listener.on_notification, self._on_following)
        except RedisUnavailable as error:
            _log.debug("listening in Postgres instead: %s", error)
        finally:
            self._is_following = False

    def _on_following(self) -> None:
        self._is_following = True
        self._listener.check_missed()

    async def _listen_until(self, relayed: asyncio.Event) -> None:
        """Listen in Postgres until the relay works, and for some seconds at least."""
        listening = asyncio.create_task(self._listener.run())
        try:
            await asyncio.sleep(RETRY_SECONDS)
            await relayed.wait()
        finally:
            listening.cancel()
            await asyncio.wait([listening])


class PostgresBackend:
    """The backend of a worker with a database connection."""

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

    def attempts(self) -> PostgresAttemptStore:
        return PostgresAttemptStore(self._url, self._lease_seconds)

    def pools(self) -> HandlerPools:
        return HandlerPools(self._url)

    def artifacts(self) -> PostgresArtifactStore:
        return PostgresArtifactStore(self._url, self._settings)

    def pulse(self) -> AbstractContextManager[PostgresHeartbeatConnection]:
        return heartbeat_connection(self._direct_url, self._worker_id, self._lease_seconds)

    def listener(
        self, queues: set[str], callbacks: NotificationCallbacks
    ) -> PostgresListener | RelayedListener:
        redis = self._redis
        listener = PostgresListener(self._direct_url, self._worker_id, queues, callbacks, ready=redis is None)
        if redis is None:
            return listener
        return RelayedListener(listener, RelayedNotifications(redis), lambda: self.readers[0])

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
        """Close the connections to Redis. The other components close their own connections."""
        for reader in self.readers:
            await reader.close()
        if self._redis is not None:
            await self._redis.close()
