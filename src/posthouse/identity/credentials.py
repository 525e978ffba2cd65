"""Authenticate a credential: an API key, an external token, or the admin secret."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from posthouse.identity.keys import digest, prefix_of, verify
from posthouse.identity.memory import KeyMemory
from posthouse.identity.principal import Principal
from posthouse.identity.roles import Role
from posthouse.identity.tokens import Tokens
from posthouse.settings import Settings
from posthouse.storage.keys import find_key, touch_key
from posthouse.storage.queries import Db

TOUCH_SECONDS = 60.0
MOST_TOUCHES = 10_000


class Credentials:
    """Authenticates credentials. ``connect`` provides a database connection."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], AbstractAsyncContextManager[Db]],
        memory: KeyMemory,
        tokens: Tokens | None = None,
    ) -> None:
        self._secret = settings.admin_secret.encode()
        self._connect = connect
        self._memory = memory
        self._tokens = tokens or Tokens(settings)
        self._touched: dict[str, float] = {}

    async def principal(self, text: str) -> Principal | None:
        """Return the principal, or None if the credential is unknown, expired, revoked or invalid."""
        if self._secret and hmac.compare_digest(text.encode(), self._secret):
            return Principal(name="admin-secret", role=Role.SUPER_ADMIN, tenant=None)
        prefix = prefix_of(text)
        if prefix is not None:
            return await self._by_key(text, prefix)
        return await self._tokens.principal(text) if self._tokens.are_taken else None

    async def _by_key(self, text: str, prefix: str) -> Principal | None:
        principal = self._memory.recall(digest(text)) or await self._looked_up(text, prefix)
        if principal is not None:
            await self._touch(prefix)
        return principal

    async def _looked_up(self, text: str, prefix: str) -> Principal | None:
        heard = self._memory.heard
        async with self._connect() as connection:
            key = await find_key(connection, prefix)
        if key is None or not verify(text, key["hash"]):
            return None
        principal = _principal(key)
        self._memory.remember(digest(text), principal, heard=heard, seconds=key["seconds_left"])
        return principal

    async def _touch(self, prefix: str) -> None:
        """Record the last use of a key to the minute, which costs at most one write per minute."""
        now = time.monotonic()
        if now - self._touched.get(prefix, float("-inf")) < TOUCH_SECONDS:
            return
        if len(self._touched) >= MOST_TOUCHES:
            self._touched.clear()
        self._touched[prefix] = now
        async with self._connect() as connection:
            await touch_key(connection, prefix)


def _principal(key: dict[str, Any]) -> Principal:
    return Principal(
        name=f"key:{key['prefix']}",
        role=Role(key["role"]),
        tenant=key["tenant_id"],
        queues=None if key["queues"] is None else tuple(key["queues"]),
        expires_at=key["expires_at"],
        key=key["prefix"],
    )
