"""Authentication, authorization, and transactions restricted to the tenant of a request."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Query, Request
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from starlette.types import Scope

from posthouse.errors import Forbidden, NotAuthenticated, TooManyRequests
from posthouse.identity import Permission, Principal, Role
from posthouse.identity.authenticator import Authenticator, KeyCache
from posthouse.identity.credentials import LoginTickets, digest, is_csrf_token, session_principal
from posthouse.settings import Settings
from posthouse.storage.connections import tenant_transaction
from posthouse.storage.errors import translate_errors
from posthouse.storage.queries import Db

Pool = AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]

STATEMENT_SECONDS = 10.0
COOKIE = "posthouse_session"
CSRF_HEADER = "X-CSRF-Token"
SAFE = {"GET", "HEAD", "OPTIONS"}
MAX_KNOWN_GOOD = 10_000
DEFAULT_TENANT = "default"
AUTHENTICATION_REQUIRED = "authentication required: send an `Authorization: Bearer <key>` header"
PRINCIPAL = "posthouse.principal"
"""Key in the request scope: the name of the principal, for the log."""
AUTHORIZED = "posthouse.authorized"
"""Key in the request scope: the access of a request that was authorized before its body was read."""
ROUTE = "posthouse.route"
"""Key in the request scope: the route, if the request did not go through the router."""
Tenant = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=512,
        description="Tenant to act on. Only super-admins may name a tenant other than their own.",
    ),
]


class RequestAuthenticator:
    """Authentication and rate limits of requests, with the connection pool."""

    def __init__(self, pool: Pool, settings: Settings, memory: KeyCache) -> None:
        self.pool = pool
        self.settings = settings
        self.memory = memory
        self.credentials = Authenticator(settings, pool.connection, memory)
        self.tickets = LoginTickets()
        self._requests = RateLimiter(settings.api_requests_per_second, settings.api_burst)
        self._failures = RateLimiter(
            settings.auth_failures_per_minute / 60, settings.auth_failures_per_minute
        )
        self._known_good: dict[bytes, None] = {}

    async def authenticate(self, request: Request) -> Principal:
        """Return the principal of the request. Raises TooManyRequests above the rate limit."""
        bearer = bearer_token(request)
        cookie = request.cookies.get(COOKIE)
        if bearer is not None:
            principal = await self.identify(bearer, address_of(request))
        elif cookie is not None:
            principal = await self._authenticate_session(request, cookie)
        else:
            raise NotAuthenticated(AUTHENTICATION_REQUIRED)
        if principal.role is Role.WORKER:  # not limited: it would retry while its leases expire
            return principal
        if wait := self._requests.take(principal.name):
            raise TooManyRequests(
                f"rate limit exceeded for {principal.name}; retry in {math.ceil(wait)} s", seconds=wait
            )
        return principal

    async def identify(self, text: str, address: str) -> Principal:
        """Return the principal of a credential.

        An address that keeps sending invalid credentials is rate limited. Credentials that were valid before
        are exempt.
        """
        hashed = digest(text)
        wait = self._failures.wait(address) if hashed not in self._known_good else 0
        if wait:
            raise TooManyRequests(
                f"too many failed authentication attempts from this address; retry in {math.ceil(wait)} s",
                seconds=wait,
            )
        principal = await self.credentials.principal(text)
        if principal is None:
            self._failures.take(address)
            raise NotAuthenticated(
                "invalid credential: it is unknown, expired or revoked; check the key, or create a new one"
            )
        if len(self._known_good) >= MAX_KNOWN_GOOD:
            self._known_good.clear()
        self._known_good[hashed] = None
        return principal

    async def _authenticate_session(self, request: Request, cookie: str) -> Principal:
        async with self.pool.connection() as connection:
            principal = await session_principal(connection, cookie)
        if principal is None:
            raise NotAuthenticated("session expired; log in again")
        if request.method not in SAFE:
            check_csrf(request, cookie)
        return principal


def bearer_token(request: Request) -> str | None:
    """Return the bearer credential of the Authorization header, or None without that header."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise NotAuthenticated(AUTHENTICATION_REQUIRED)
    return text.strip()


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def check_csrf(request: Request, cookie: str) -> None:
    """Reject cross-site requests.

    Browsers attach the cookie to requests from any site; only pages of the console know the CSRF token.
    """
    origin = urlsplit(request.headers.get("origin", ""))
    if not origin.netloc or origin.netloc != request.headers.get("host"):
        raise Forbidden(
            "cross-origin request rejected: the Origin header is missing or does not match the Host header; "
            "send the request from the console, or authenticate with an Authorization header"
        )
    if not is_csrf_token(cookie, request.headers.get(CSRF_HEADER)):
        raise Forbidden(f"missing or invalid {CSRF_HEADER} header; get its value from GET /api/v1/session")


@dataclass(frozen=True, slots=True)
class Access:
    """The authorized principal of a request and its access to the database."""

    principal: Principal
    authenticator: RequestAuthenticator
    tenant: str | None = None
    """Tenant of the request: that of the principal, or the one a super-admin named; None means all."""

    @property
    def actor(self) -> str:
        """The name of the principal for the audit log."""
        return self.principal.name

    @property
    def offline_after(self) -> float | None:
        return self.authenticator.settings.offline_after

    def resolve_tenant(self, named: str | None) -> str | None:
        """Return the tenant of a request; None means all.

        Only a principal without a tenant gets None, if the request names no tenant.
        """
        own = self.principal.tenant
        if own is not None and named not in {None, own}:
            raise Forbidden(
                f"{self.principal.name} belongs to tenant {own!r} and cannot access tenant {named!r}"
            )
        return own or named

    @property
    def is_platform(self) -> bool:
        """Whether the principal belongs to no tenant, as super-admins do."""
        return self.principal.tenant is None

    def with_default_tenant(self) -> Access:
        """Return this access with a tenant, by default ``default``: a new resource always belongs to one."""
        return self if self.tenant else replace(self, tenant=DEFAULT_TENANT)

    def for_tenant(self, tenant: str) -> Access:
        """Return this access restricted to one tenant."""
        return replace(self, tenant=self.resolve_tenant(tenant))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Db]:
        """Open a transaction restricted to the tenant of the request."""
        async with self.authenticator.pool.connection() as connection:
            with translate_errors():
                async with tenant_transaction(connection, self.tenant, seconds=STATEMENT_SECONDS) as db:
                    yield db

    @asynccontextmanager
    async def platform_transaction(self) -> AsyncIterator[Db]:
        """Open a transaction that reads resources without a tenant: workers, queues, limits.

        A route that opens it for a tenant must filter what it returns.
        """
        async with self.authenticator.pool.connection() as connection:
            with translate_errors():
                async with tenant_transaction(connection, None, seconds=STATEMENT_SECONDS) as db:
                    yield db


async def principal_of(request: Request) -> Principal:
    """Return the principal, for public routes that return more to authenticated callers."""
    authenticator: RequestAuthenticator = request.app.state.authenticator
    return await authenticator.authenticate(request)


Authorize = Callable[[Request], Awaitable[Access]]


def allow(permission: Permission, *, tenant_scoped: bool = False) -> Any:
    """Return the dependency that declares the permission of a route.

    The server does not start with a route that declares none. ``tenant_scoped``: the route is
    about resources of tenants, and super-admins may name one.
    """

    async def authorize(request: Request) -> Access:
        principal = await principal_of(request)
        request.scope[PRINCIPAL] = principal.name
        principal.require(permission)
        return Access(principal, request.app.state.authenticator)

    async def admit(request: Request, tenant: Tenant = None) -> Access:
        access = await authorized(request, authorize)
        return replace(access, tenant=access.resolve_tenant(tenant))

    async def admit_without_tenant(request: Request) -> Access:
        return await admit(request)

    dependency: Any = admit if tenant_scoped else admit_without_tenant
    return Depends(declare(dependency, {permission}, authorize))


def declare(dependency: Any, permissions: set[Permission], authorize: Authorize) -> Any:
    """Declare the permissions of the routes that have this dependency. A caller needs one of them.

    ``authorize`` is called before the body of a request is read.
    """
    dependency.permissions = frozenset(permissions)
    dependency.authorize = authorize
    return dependency


async def authorized(request: Request, authorize: Authorize) -> Access:
    """Return the access of a request. A request is authorized only once."""
    before: Access | None = request.scope.pop(AUTHORIZED, None)
    return before or await authorize(request)


async def authorize_before_body(scope: Scope) -> None:
    """Authorize a request whose body is about to be read.

    FastAPI reads and parses the body before it calls the dependencies of a route. Public routes have nothing
    to check here; their bodies are small.
    """
    route: Any = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    if PRINCIPAL in scope or not hasattr(route, "dependant"):
        return
    for dependency in route.dependant.dependencies:
        authorize: Authorize | None = getattr(dependency.call, "authorize", None)
        if authorize is not None:
            scope[AUTHORIZED] = await authorize(Request(scope))
            return


MAX_NAMES = 10_000


class RateLimiter:
    """One token bucket per name. Without a rate, buckets are never empty."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take a token. Returns 0.0 on success, otherwise the seconds until one is available."""
        wait = self.wait(name)
        if not wait and self._rate:
            left = self._now(name) - 1
            self._left.pop(name, None)  # the oldest stay first: they are the fullest, and are dropped first
            self._left[name] = (left, self._clock())
            if len(self._left) > MAX_NAMES:
                self._left.pop(next(iter(self._left)))
        return wait

    def wait(self, name: str) -> float:
        """Return the seconds until a token is available."""
        return max(0.0, (1 - self._now(name)) / self._rate) if self._rate else 0.0

    def _now(self, name: str) -> float:
        left, at = self._left.get(name, (self._burst, 0.0))
        return min(self._burst, left + (self._clock() - at) * self._rate)
