"""Authenticate a credential: an API key, an external token, or the admin secret."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from posthouse.identity.credentials import digest, prefix_of, verify
from posthouse.identity.roles import Principal, Role
from posthouse.identity.tokens import JwtVerifier
from posthouse.settings import Settings
from posthouse.storage.credentials import find_key, record_key_use
from posthouse.storage.notifications import NotificationListener
from posthouse.storage.queries import Db

TOUCH_SECONDS = 60.0
MAX_TOUCHES = 10_000


class Authenticator:
    """The authentication of credentials. ``connect`` provides a database connection."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], AbstractAsyncContextManager[Db]],
        cache: KeyCache,
        tokens: JwtVerifier | None = None,
    ) -> None:
        self._secret = settings.admin_secret.encode()
        self._connect = connect
        self._cache = cache
        self._tokens = tokens or JwtVerifier(settings)
        self._touched: dict[str, float] = {}

    async def principal(self, text: str) -> Principal | None:
        """Return the principal, or None if the credential is unknown, expired, revoked or invalid."""
        if self._secret and hmac.compare_digest(text.encode(), self._secret):
            return Principal(name="admin-secret", role=Role.SUPER_ADMIN, tenant=None)
        prefix = prefix_of(text)
        if prefix is not None:
            return await self._authenticate_key(text, prefix)
        return await self._tokens.principal(text) if self._tokens.is_enabled else None

    async def _authenticate_key(self, text: str, prefix: str) -> Principal | None:
        principal = self._cache.get(digest(text)) or await self._load(text, prefix)
        if principal is not None:
            await self._touch(prefix)
        return principal

    async def _load(self, text: str, prefix: str) -> Principal | None:
        generation = self._cache.generation
        async with self._connect() as connection:
            key = await find_key(connection, prefix)
        if key is None or not verify(text, key["hash"]):
            return None
        principal = _principal(key)
        self._cache.put(digest(text), principal, generation=generation, seconds=key["seconds_left"])
        return principal

    async def _touch(self, prefix: str) -> None:
        """Record the last use of a key to the minute, to limit the cost to one write per minute."""
        now = time.monotonic()
        if now - self._touched.get(prefix, float("-inf")) < TOUCH_SECONDS:
            return
        if len(self._touched) >= MAX_TOUCHES:
            self._touched.clear()
        self._touched[prefix] = now
        async with self._connect() as connection:
            await record_key_use(connection, prefix)


def _principal(key: dict[str, Any]) -> Principal:
    return Principal(
        name=f"key:{key['prefix']}",
        role=Role(key["role"]),
        tenant=key["tenant_id"],
        queues=None if key["queues"] is None else tuple(key["queues"]),
        expires_at=key["expires_at"],
        key=key["prefix"],
    )


CACHE_SECONDS = 15.0
"""Seconds for which a key is cached.

A dead connection is detected within this time; until then revocations are not received.
"""
MAX_KEYS = 10_000


class KeyCache:
    """A cache of keys.

    It stays empty while the process cannot LISTEN: behind a transaction pooler, and while Postgres is
    unreachable. Every request then reads its key from the database.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = NotificationListener(
            url, "server keys", ["posthouse_keys"], lambda _, prefix: self.invalidate(prefix),
            on_disconnect=self._on_disconnect,
        )  # fmt: skip
        self._clock = clock
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._generation = 0

    @property
    def is_listening(self) -> bool:
        return self._listener.is_listening

    @property
    def generation(self) -> int:
        """The number of invalidations. A key that was read before the last one may be outdated."""
        return self._generation

    def get(self, digest: bytes) -> Principal | None:
        until, principal = self._known.get(digest, (0.0, None))
        return principal if until > self._clock() else None

    def put(self, digest: bytes, principal: Principal, *, generation: int, seconds: float | None) -> None:
        """Cache a key.

        ``generation``: the number of invalidations before the key was read. ``seconds``: time until the key
        expires.
        """
        if not self.is_listening or generation != self._generation:
            return
        if len(self._known) >= MAX_KEYS:
            self._known.clear()
        self._known[digest] = (self._clock() + min(CACHE_SECONDS, seconds or CACHE_SECONDS), principal)

    def invalidate(self, prefix: str) -> None:
        self._generation += 1
        self._known = {key: item for key, item in self._known.items() if item[1].key != prefix}

    async def run(self) -> None:
        """Listen until canceled. Returns at once if LISTEN is not possible."""
        await self._listener.run()

    def _on_disconnect(self) -> None:
        self._generation += 1
        self._known.clear()
