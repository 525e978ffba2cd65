"""Who makes a request, what they may do, and transactions that see what they may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Request
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from posthouse.errors import NotAuthenticated
from posthouse.identity import Permission, Principal, Role, prefix_of, verify
from posthouse.storage.errors import translated
from posthouse.storage.reading import Db, fetch_rows
from posthouse.storage.tenancy import seen_by

Pool = AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]

STATEMENT_SECONDS = 10.0


class Gate:
    """Knows the credentials and holds the connections."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def admit(self, authorization: str | None) -> Principal:
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise NotAuthenticated("say who you are: Authorization: Bearer <key>")
        principal = await self._by_key(text.strip())
        if principal is None:
            raise NotAuthenticated("this key is unknown, expired or revoked")
        return principal

    async def _by_key(self, text: str) -> Principal | None:
        prefix = prefix_of(text)
        if prefix is None:
            return None
        async with self.pool.connection() as connection:
            found = await fetch_rows(connection, "key_find", prefix=prefix)
        if not found or not verify(text, found[0]["hash"]):
            return None
        key = found[0]
        return Principal(
            name=f"key:{prefix}",
            role=Role(key["role"]),
            tenant=key["tenant_id"],
            queues=None if key["queues"] is None else tuple(key["queues"]),
            expires_at=key["expires_at"],
        )


@dataclass(frozen=True, slots=True)
class Access:
    """What a route gets: somebody who may do what the route does, and the way to the database."""

    principal: Principal
    gate: Gate

    @property
    def actor(self) -> str:
        return self.principal.name

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Db]:
        """A transaction that sees what they may see."""
        async with self.gate.pool.connection() as connection:
            with translated():
                async with seen_by(connection, self.principal.tenant, seconds=STATEMENT_SECONDS) as db:
                    yield db


def allow(permission: Permission) -> Any:
    """The dependency by which a route states its permission. None starts without one: see app.py."""

    async def admitted(request: Request) -> Access:
        gate: Gate = request.app.state.gate
        principal = await gate.admit(request.headers.get("authorization"))
        principal.demand(permission)
        return Access(principal, gate)

    admitted.permission = permission  # type: ignore[attr-defined]
    return Depends(admitted)
