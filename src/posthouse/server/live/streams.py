"""The clients of this process, the watcher that looks for all of them, and whether each may still look on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from posthouse.errors import DatabaseUnavailable, Forbidden, NotAuthenticated, ServerFull, TooManyStreams
from posthouse.identity import Permission, Principal
from posthouse.server.live.subscription import Subscription
from posthouse.server.live.wanted import Wanted
from posthouse.server.live.watcher import Scope, Watcher
from posthouse.settings import Settings
from posthouse.waiting import until_set

_log = logging.getLogger("posthouse.server")

Recheck = Callable[[], Awaitable[Principal]]

RECHECK_SECONDS = 3.0
FIRST_LOOK_SECONDS = 10.0


class Streams:
    def __init__(self, url: str, settings: Settings) -> None:
        self._settings = settings
        self._watcher = Watcher(settings.direct_url or url, settings.lease_seconds, self)
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
        """What the watcher has to look at for these clients."""
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

    async def join(self, wanted: Wanted, principal: Principal, recheck: Recheck) -> Subscription:
        """Returns when all that happens from now on will be offered."""
        self._refuse_too_many(principal)
        client = Subscription(wanted, principal.name)
        self._clients[client] = recheck
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
        try:
            async with asyncio.timeout(FIRST_LOOK_SECONDS):
                client.at = await self._watcher.looked()
        except TimeoutError:
            self.leave(client)
            raise DatabaseUnavailable("the database cannot be watched") from None
        except BaseException:
            self.leave(client)
            raise
        return client

    def _refuse_too_many(self, principal: Principal) -> None:
        if self._closed:
            raise ServerFull("this server is stopping: ask another")
        if len(self._clients) >= self._settings.sse_clients:
            raise ServerFull(f"this server has {len(self._clients)} live streams open and takes no more")
        own = sum(client.who == principal.name for client in self._clients)
        if own >= self._settings.sse_clients_per_key:
            raise TooManyStreams(
                f"{principal.name} has {own} live streams open here, the most that it may have"
            )

    def leave(self, client: Subscription) -> None:
        self._clients.pop(client, None)

    async def close(self) -> None:
        """Tells all clients that this server stops; they end by themselves."""
        self._closed = True
        for client in self._clients:
            client.end("shutdown")
        tasks = [task for task in (self._watching, self._checking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def keys_changed(self) -> None:
        self._check_now.set()

    async def _watch(self) -> None:
        """Looks for as long as there is anybody to look for."""
        try:
            await self._watcher.run()
        finally:
            self._watching = None

    async def _check(self) -> None:
        while self._clients:
            await until_set(self._check_now, RECHECK_SECONDS)
            self._check_now.clear()
            checks = {client.who: recheck for client, recheck in self._clients.items()}
            for who, recheck in checks.items():
                await self._check_one(who, recheck)
        self._checking = None

    async def _check_one(self, who: str, recheck: Recheck) -> None:
        own = [client for client in self._clients if client.who == who]
        try:
            principal = await recheck()
            principal.demand(Permission.JOBS_READ)
        except (NotAuthenticated, Forbidden):
            lost = own
        except (DatabaseUnavailable, PoolTimeout, psycopg.Error):
            return  # nothing can be told either
        except Exception:  # noqa: BLE001 - who cannot be checked may not look on
            _log.exception("the credential of a live stream could not be checked")
            lost = own
        else:
            lost = [client for client in own if principal.tenant not in {None, client.wanted.tenant}]
        for client in lost:
            client.end("credential")

    def followers(self, job: UUID) -> list[Subscription]:
        return [client for client in self._clients if client.wanted.job == job]
