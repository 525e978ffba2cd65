"""Health checks, cached for a few seconds and shared by all requests, and the heartbeat of this server."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout

from posthouse.insights.doctor import Report, report, run_checks
from posthouse.insights.health import Health, Presence, health, presence, schema_problem, unreachable
from posthouse.server.http.auth import RequestAuthenticator
from posthouse.settings import Settings
from posthouse.storage.connections import ConnectionRunner
from posthouse.storage.queries import calling
from posthouse.waiting import finish_within

POOL_TIMEOUT = 3.0
CACHE_SECONDS = 5.0
READY_SECONDS = 1.0
DATABASE_DOWN = (psycopg.OperationalError, PoolTimeout)
UNREACHABLE = "cannot connect to Postgres; check that it is running and reachable"


class HealthCache:
    """Health checks with cached results.

    ``url``: the database, for the doctor, which opens its own connection.
    """

    def __init__(self, authenticator: RequestAuthenticator, settings: Settings, url: str) -> None:
        self._authenticator = authenticator
        self._settings = settings
        self._url = url
        self.health = CachedResult(self._health, CACHE_SECONDS)
        self.report = CachedResult(self._report, CACHE_SECONDS)
        self.presence = CachedResult(self._presence, CACHE_SECONDS)
        self.not_ready_reason = CachedResult(self._not_ready_reason, READY_SECONDS)

    async def _health(self) -> Health:
        try:
            async with self._authenticator.pool.connection(timeout=POOL_TIMEOUT) as connection:
                return await health(connection, self._settings)
        except DATABASE_DOWN:
            return unreachable(UNREACHABLE)

    async def _presence(self) -> Presence | None:
        """Return the online workers and the counts of all queues; None if the database is unreachable."""
        try:
            async with self._authenticator.pool.connection(timeout=POOL_TIMEOUT) as connection:
                return await presence(connection, offline_after=self._settings.offline_after)
        except DATABASE_DOWN:
            return None

    async def _report(self) -> Report:
        return report(await run_checks(self._url, self._settings))

    async def _not_ready_reason(self) -> str:
        """Return why requests cannot be served; empty if they can."""
        try:
            async with self._authenticator.pool.connection(timeout=POOL_TIMEOUT) as connection:
                return await schema_problem(connection) or ""
        except DATABASE_DOWN:
            return UNREACHABLE


T = TypeVar("T")

MAX_TIME_SHARE = 20
"""Values that take long are computed less often: computing them takes at most 1/20 of the time."""


class CachedResult(Generic[T]):
    """A value computed by one caller and shared with the others. Errors are not cached."""

    def __init__(self, load: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._load = load
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._value: T | None = None

    async def get(self) -> T:
        async with self._lock:
            if self._value is None or time.monotonic() >= self._until:
                began = time.monotonic()
                self._value = await self._load()
                took = time.monotonic() - began
                self._until = time.monotonic() + max(self._seconds, MAX_TIME_SHARE * took)
            return self._value


_log = logging.getLogger("posthouse.server")

BEAT_SECONDS = 5.0
"""Seconds between heartbeats: a third of the gap after which posthouse.server_beat assumes a new start."""

LEAVE_SECONDS = 0.5


class ServerHeartbeat:
    """The heartbeat of this server in the database, which the rescue of remote workers' jobs depends on.

    Remote workers renew their leases through a server. Without a server they cannot, and their leases expire
    although the workers are healthy. The keeper therefore judges such leases only after a server has been
    running for a grace period.
    """

    def __init__(self, connections: ConnectionRunner) -> None:
        self._connections = connections
        self._id = uuid4()

    async def run(self) -> None:
        while True:
            try:
                await self.beat()
            except psycopg.Error as error:
                _log.warning("server heartbeat failed, retrying in %g s: %s", BEAT_SECONDS, error)
            await asyncio.sleep(BEAT_SECONDS)

    async def beat(self) -> None:
        await self._send(
            "server_beat", {"id": self._id, "hostname": socket.gethostname(), "pid": os.getpid()}
        )

    async def leave(self) -> None:
        with suppress(psycopg.Error):  # if this fails, the row is outdated after 15 s
            await finish_within(LEAVE_SECONDS, self._send("server_leave", {"id": self._id}))

    async def _send(self, name: str, fields: dict[str, Any]) -> None:
        async def work(connection: AsyncConnection[tuple[Any, ...]]) -> None:
            await connection.execute(calling(name, *fields), fields)

        await self._connections.run(work)
