"""Who makes a request, what they may do, and transactions that see what they may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Query, Request
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from posthouse.errors import Forbidden, NotAuthenticated, TooManyRequests
from posthouse.identity import Permission, Principal
from posthouse.identity.buckets import Buckets
from posthouse.identity.credentials import Credentials
from posthouse.identity.keys import digest
from posthouse.identity.logins import is_csrf_token, logged_in
from posthouse.identity.memory import KeyMemory
from posthouse.identity.tickets import Tickets
from posthouse.settings import Settings
from posthouse.storage.errors import translated
from posthouse.storage.reading import Db
from posthouse.storage.tenancy import seen_by

Pool = AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]

STATEMENT_SECONDS = 10.0
COOKIE = "posthouse_session"
CSRF_HEADER = "X-CSRF-Token"
SAFE = {"GET", "HEAD", "OPTIONS"}
MOST_GOOD = 10_000
DEFAULT_TENANT = "default"
PRINCIPAL = "posthouse.principal"
"""In the scope of a request: who makes it, for the log."""
ROUTE = "posthouse.route"
"""Likewise: where it went, if not through the router."""
Tenant = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=512,
        description="Only for super-admins: whose things this is about. Others may name none but their own.",
    ),
]


class Gate:
    """Knows who somebody is, how much they may ask for, and holds the connections."""

    def __init__(self, pool: Pool, settings: Settings, memory: KeyMemory) -> None:
        self.pool = pool
        self.settings = settings
        self.memory = memory
        self.credentials = Credentials(settings, pool.connection, memory)
        self.tickets = Tickets()
        self._requests = Buckets(settings.api_rate, settings.api_burst)
        self._failures = Buckets(settings.auth_failures / 60, settings.auth_failures)
        self._good: dict[bytes, None] = {}

    async def admit(self, request: Request) -> Principal:
        """Whoever makes the request, unless they ask too often."""
        shown = bearer_of(request)
        cookie = request.cookies.get(COOKIE)
        if shown is not None:
            principal = await self.identify(shown, address_of(request))
        elif cookie is not None:
            principal = await self._by_cookie(request, cookie)
        else:
            raise NotAuthenticated("say who you are: Authorization: Bearer <key>")
        if wait := self._requests.take(principal.name):
            raise TooManyRequests(f"{principal.name} asks too often", seconds=wait)
        return principal

    async def identify(self, text: str, address: str) -> Principal:
        """An address that shows wrong credentials all the time must wait; what was good once may pass."""
        hashed = digest(text)
        wait = self._failures.wait(address) if hashed not in self._good else 0
        if wait:
            raise TooManyRequests("too many wrong credentials came from this address", seconds=wait)
        principal = await self.credentials.principal(text)
        if principal is None:
            self._failures.take(address)
            raise NotAuthenticated("this credential is unknown, expired or revoked")
        if len(self._good) >= MOST_GOOD:
            self._good.clear()
        self._good[hashed] = None
        return principal

    async def _by_cookie(self, request: Request, cookie: str) -> Principal:
        async with self.pool.connection() as connection:
            principal = await logged_in(connection, cookie)
        if principal is None:
            raise NotAuthenticated("this login has ended: log in again")
        if request.method not in SAFE:
            refuse_forged(request, cookie)
        return principal


def bearer_of(request: Request) -> str | None:
    """What is shown in the header; None if there is no such header."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise NotAuthenticated("say who you are: Authorization: Bearer <key>")
    return text.strip()


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def refuse_forged(request: Request, cookie: str) -> None:
    """A browser sends its cookie whoever asks it to; only our own pages know the token."""
    origin = urlsplit(request.headers.get("origin", ""))
    if not origin.netloc or origin.netloc != request.headers.get("host"):
        raise Forbidden("with a login, changes are taken from the page that logged in: the Origin is another")
    if not is_csrf_token(cookie, request.headers.get(CSRF_HEADER)):
        raise Forbidden(
            f"with a login, changes need the header {CSRF_HEADER}, as GET /api/v1/session tells it"
        )


@dataclass(frozen=True, slots=True)
class Access:
    """What a route gets: somebody who may do what the route does, and the way to the database."""

    principal: Principal
    gate: Gate
    whose: str | None = None
    """Whose things this is about: the principal's own, or those that a super-admin named; None: all."""

    @property
    def actor(self) -> str:
        return self.principal.name

    def tenant(self, named: str | None) -> str | None:
        """The tenant that a request is about: their own; those without one name it, or mean all of them."""
        own = self.principal.tenant
        if own is not None and named not in {None, own}:
            raise Forbidden(f"{self.principal.name} belongs to another tenant")
        return own or named

    @property
    def sees_all(self) -> bool:
        return self.principal.tenant is None

    def writer(self) -> Access:
        """The same for what is new, which always belongs to a tenant."""
        return self if self.whose else replace(self, whose=DEFAULT_TENANT)

    def of(self, tenant: str) -> Access:
        """The same for the things of one tenant, say those that a super-admin has found among all."""
        return replace(self, whose=self.tenant(tenant))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Db]:
        """A transaction that sees what they may see, or of that what they asked for."""
        async with self.gate.pool.connection() as connection:
            with translated():
                async with seen_by(connection, self.whose, seconds=STATEMENT_SECONDS) as db:
                    yield db

    @asynccontextmanager
    async def platform(self) -> AsyncIterator[Db]:
        """A transaction that sees what belongs to no tenant: workers, queues, limits. Whoever opens it for a
        tenant shows only what that one may know.
        """
        async with self.gate.pool.connection() as connection:
            with translated():
                async with seen_by(connection, None, seconds=STATEMENT_SECONDS) as db:
                    yield db


async def principal_of(request: Request) -> Principal:
    """Who makes a request, for routes that answer to anybody and say more to some."""
    gate: Gate = request.app.state.gate
    return await gate.admit(request)


def allow(permission: Permission, *, of_tenants: bool = False) -> Any:
    """The dependency by which a route states its permission. None starts without one: see app.py.

    ``of_tenants``: it is about things of tenants, one of which a super-admin may name.
    """

    async def admitted(request: Request, tenant: Tenant = None) -> Access:
        gate: Gate = request.app.state.gate
        principal = await principal_of(request)
        request.scope[PRINCIPAL] = principal.name
        principal.demand(permission)
        access = Access(principal, gate)
        return replace(access, whose=access.tenant(tenant))

    async def admitted_to_all(request: Request) -> Access:
        return await admitted(request)

    chosen: Any = admitted if of_tenants else admitted_to_all
    chosen.permissions = frozenset({permission})
    return Depends(chosen)
