"""Redis as the rest of Posthouse sees it: requests with a time limit, and one error for all failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from posthouse.dispatch.urls import client_of, masked
from posthouse.errors import RedisUnavailable

if TYPE_CHECKING:
    from posthouse.settings import Settings

T = TypeVar("T")

ANSWER_SECONDS = 0.9
"""How long a response may take. A server that hangs is detected within a second."""
START_SECONDS = 5.0
"""The same for the first response to a process that starts: many starting at once keep all cores busy."""


class Redis:
    """A client with a connection pool, which reconnects by itself. Every failure is RedisUnavailable."""

    def __init__(self, url: str, pool_size: int) -> None:
        self.shown = masked(url)
        self.client: Any = client_of(url, pool_size)
        from redis.asyncio import RedisCluster  # noqa: PLC0415 - the package is optional
        from redis.exceptions import RedisError, ResponseError  # noqa: PLC0415

        self.is_cluster = isinstance(self.client, RedisCluster)
        self.error_response: type[Exception] = ResponseError
        self._failures = (RedisError, OSError, TimeoutError)

    async def run(self, request: Awaitable[T], seconds: float | None = ANSWER_SECONDS) -> T:
        """Return the response to the request; raise RedisUnavailable if there is none in time (None: any)."""
        try:
            async with asyncio.timeout(seconds):
                return await request
        except self._failures as error:
            reason = str(error) or f"no response within {seconds} s"
            raise RedisUnavailable(f"cannot use Redis at {self.shown}: {reason}") from error

    async def ping(self, seconds: float = ANSWER_SECONDS) -> None:
        await self.run(self.client.ping(), seconds)

    async def close(self) -> None:
        await self.client.aclose()
        sentinel = getattr(getattr(self.client, "connection_pool", None), "sentinel_manager", None)
        for each in () if sentinel is None else sentinel.sentinels:
            await each.aclose()


def redis_of(settings: Settings) -> Redis | None:
    """Return a client for the settings; None in database mode. Connects when it is used."""
    if settings.dispatch == "database":
        return None
    return Redis(settings.redis_url, settings.redis_pool_size)


async def open_redis(settings: Settings) -> Redis | None:
    """Return a client for the settings; None in database mode. In redis mode, Redis must be reachable."""
    redis = redis_of(settings)
    if redis is not None and settings.dispatch == "redis":
        await require(redis)
    return redis


async def check_redis(settings: Settings) -> None:
    """Raise RedisUnavailable in redis mode if Redis is not reachable."""
    redis = await open_redis(settings)
    if redis is not None:
        await redis.close()


async def state_of(redis: Redis | None) -> str:
    """Return whether Redis can be reached, in a word or two for health checks."""
    if redis is None:
        return "not configured"
    try:
        await redis.ping()
    except RedisUnavailable:
        return "unreachable"
    return "ok"


async def require(redis: Redis) -> None:
    try:
        await redis.ping(START_SECONDS)
    except RedisUnavailable as error:
        await redis.close()
        raise RedisUnavailable(
            f"{error}. POSTHOUSE_DISPATCH=redis requires Redis: start it, correct POSTHOUSE_REDIS_URL, or "
            "set POSTHOUSE_DISPATCH=hybrid to poll Postgres while Redis is unreachable"
        ) from error
