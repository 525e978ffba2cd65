"""The clients of event streams in this process, their watcher, and periodic checks of their credentials."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from posthouse.errors import (
    DatabaseUnavailable,
    Forbidden,
    NotAuthenticated,
    StreamLimitReached,
    TooManyStreams,
)
from posthouse.identity import Permission, Principal
from posthouse.server.live.subscriptions import StreamFilter, Subscription
from posthouse.server.live.watcher import Scope, Watcher
from posthouse.settings import Settings
from posthouse.waiting import end_tasks, wait_for_event

_log = logging.getLogger("posthouse.server")

Recheck = Callable[[], Awaitable[Principal]]

RECHECK_SECONDS = 3.0
FIRST_POLL_SECONDS = 10.0


class Subscriptions:
    def __init__(self, url: str, settings: Settings) -> None:
        self._settings = settings
        self._watcher = Watcher(settings.direct_url or url, settings.offline_after, self)
        self._clients: dict[Subscription, Recheck] = {}
        self._watching: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._check_now = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._clients)

    @property
    def scope(self) -> Scope:
        """The data that the watcher must poll for these clients."""
        wanted = [client.wanted for client in self._clients]
        jobs = {item.job for item in wanted if item.job is not None}
        tenants = {item.tenant for item in wanted if item.tenant is not None}
        return Scope(
            jobs=frozenset(jobs) if all(item.job is not None for item in wanted) else None,
            tenants=frozenset(tenants) if all(item.tenant is not None for item in wanted) else None,
            logs=frozenset(item.job for item in wanted if item.job is not None and item.log),
            counters=any(item.counters for item in wanted),
            workers=any(item.workers for item in wanted),
        )

    async def add(self, wanted: StreamFilter, principal: Principal, recheck: Recheck) -> Subscription:
        """Add a client. Return when it is certain to receive all later changes."""
        self._reject_too_many(principal)
        client = Subscription(wanted, principal.name, tenant=principal.tenant)
        self._clients[client] = recheck
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
        try:
            async with asyncio.timeout(FIRST_POLL_SECONDS):
                client.at = await self._watcher.wait_for_poll()
        except TimeoutError:
            self.remove(client)
            raise DatabaseUnavailable("cannot read changes from the database") from None
        except BaseException:
            self.remove(client)
            raise
        return client

    def _reject_too_many(self, principal: Principal) -> None:
        if self._closed:
            raise StreamLimitReached("the server is shutting down; reconnect to another instance")
        if len(self._clients) >= self._settings.max_streams:
            raise StreamLimitReached(
                f"stream limit reached: this server has {len(self._clients)} open streams (setting "
                "max_streams); retry later"
            )
        own = sum(client.principal == principal.name for client in self._clients)
        if own >= self._settings.max_streams_per_key:
            raise TooManyStreams(
                f"stream limit reached: {principal.name} has {own} open streams on this server (setting "
                "max_streams_per_key); close one first"
            )
        shared = sum(client.tenant == principal.tenant for client in self._clients)
        if principal.tenant is not None and shared >= self._settings.max_streams_per_tenant:
            raise TooManyStreams(
                f"stream limit reached: tenant {principal.tenant!r} has {shared} open streams on this server "
                "(setting max_streams_per_tenant); close one first"
            )

    def remove(self, client: Subscription) -> None:
        self._clients.pop(client, None)

    async def close(self) -> None:
        """Send all clients a closing event, because the server shuts down."""
        self._closed = True
        for client in self._clients:
            client.end("shutdown")
        await end_tasks([task for task in (self._watching, self._checking) if task is not None])

    def keys_changed(self) -> None:
        self._check_now.set()

    async def _watch(self) -> None:
        """Run the watcher while there are clients."""
        try:
            await self._watcher.run()
        finally:
            self._watching = None

    async def _check(self) -> None:
        while self._clients:
            await wait_for_event(self._check_now, RECHECK_SECONDS)
            self._check_now.clear()
            checks = {client.principal: recheck for client, recheck in self._clients.items()}
            for name, recheck in checks.items():
                await self._reauthorize(name, recheck)
        self._checking = None

    async def _reauthorize(self, name: str, recheck: Recheck) -> None:
        own = [client for client in self._clients if client.principal == name]
        try:
            principal = await recheck()
            principal.require(Permission.JOBS_READ)
        except (NotAuthenticated, Forbidden):
            lost = own
        except (DatabaseUnavailable, PoolTimeout, psycopg.Error):
            return  # without the database no events can be sent either
        except Exception:  # noqa: BLE001 - fail closed
            _log.exception("event stream closed: its credential could not be checked principal=%s", name)
            lost = own
        else:
            lost = [client for client in own if principal.tenant not in {None, client.wanted.tenant}]
        for client in lost:
            client.end("credential")

    def followers(self, job: UUID) -> list[Subscription]:
        return [client for client in self._clients if client.wanted.job == job]
