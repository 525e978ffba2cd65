"""Connections to Redis or Valkey: one server, Sentinel or Cluster, chosen by the scheme of the URL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from posthouse.errors import ConfigurationError, RedisUnavailable

if TYPE_CHECKING:
    from posthouse.settings import Settings

T = TypeVar("T")

ANSWER_SECONDS = 0.9
"""How long a response may take. A server that hangs is detected within a second."""
SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")


class MissingGroup(Exception):
    """The stream or its consumer group does not exist: Redis is new, or was flushed."""


class Redis:
    """A client with a connection pool, which reconnects by itself. Every failure is RedisUnavailable."""

    def __init__(self, url: str, pool_size: int) -> None:
        self.shown = masked(url)
        self.client: Any = _client(url, pool_size)
        self._failures = _failures()

    async def run(self, request: Awaitable[T], seconds: float = ANSWER_SECONDS) -> T:
        """Return the response to the request; raise RedisUnavailable if there is none in time."""
        try:
            async with asyncio.timeout(seconds):
                return await request
        except self._failures as error:
            if str(error).startswith(("NOGROUP", "UNBLOCKED")):
                raise MissingGroup from error
            reason = str(error) or f"no response within {seconds:g} s"
            raise RedisUnavailable(f"cannot use Redis at {self.shown}: {reason}") from error

    async def ping(self) -> None:
        await self.run(self.client.ping())

    async def close(self) -> None:
        await self.client.aclose()


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
        await redis.ping()
    except RedisUnavailable as error:
        await redis.close()
        raise RedisUnavailable(
            f"{error}. POSTHOUSE_DISPATCH=redis requires Redis: start it, correct POSTHOUSE_REDIS_URL, or "
            "set POSTHOUSE_DISPATCH=hybrid to poll Postgres while Redis is unreachable"
        ) from error


def masked(url: str) -> str:
    """Return the URL without user, password and parameters."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _failures() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError  # noqa: PLC0415 - the package is optional

    return (RedisError, OSError, TimeoutError)


def _client(url: str, pool_size: int) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigurationError(f"redis_url must start with one of {known}, not {masked(url)!r}")
    try:
        from redis.backoff import NoBackoff  # noqa: PLC0415

        from redis import asyncio as redis  # noqa: PLC0415 - the package is optional
    except ImportError:
        raise ConfigurationError(
            "POSTHOUSE_DISPATCH needs the Python package redis, which is not installed: "
            "run `pip install 'posthouse[redis]'`"
        ) from None
    from redis.asyncio.retry import Retry  # noqa: PLC0415

    options: dict[str, Any] = {
        "decode_responses": True,
        "protocol": 2,  # responses have the same shape in all versions of redis-py
        "socket_connect_timeout": ANSWER_SECONDS,
        # Redis.run ends a request. With a timeout of its own, redis-py sends with asyncio.wait_for, which in
        # Python 3.11 can lose a cancellation, and the canceled task continues to run.
        "socket_timeout": None,
        "retry": Retry(NoBackoff(), 0),  # the circuit breaker decides when to try again
    }
    try:
        if parts.scheme.endswith("+sentinel"):
            return _sentinel(parts, pool_size, options)
        if parts.scheme.endswith("+cluster"):
            plain = urlunsplit(parts._replace(scheme=parts.scheme.removesuffix("+cluster")))
            return redis.RedisCluster.from_url(plain, max_connections=pool_size, **options)
        pool = redis.BlockingConnectionPool.from_url(
            url, max_connections=pool_size, timeout=ANSWER_SECONDS, **options
        )
        return redis.Redis.from_pool(pool)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"redis_url is invalid: {error}") from None


def _sentinel(parts: SplitResult, pool_size: int, options: dict[str, Any]) -> Any:
    """Return a client of the master, for ``redis+sentinel://user:password@host:port,host:port/service/db``."""
    from redis.asyncio.sentinel import Sentinel  # noqa: PLC0415 - the package is optional

    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    service, _, number = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError(
            "a Sentinel URL ends with the name of the service: redis+sentinel://host:26379/mymaster"
        )
    sentinels = [
        (host, int(port or 26379)) for host, _, port in (item.partition(":") for item in hosts.split(","))
    ]
    more: dict[str, Any] = dict(parse_qsl(parts.query))
    if login:
        more.update(username=unquote(user) or None, password=unquote(password))
    if parts.scheme.startswith("rediss"):
        more["ssl"] = True
    guarded: Any = Sentinel(sentinels, **options)  # type: ignore[no-untyped-call]
    return guarded.master_for(service, db=int(number or 0), max_connections=pool_size, **more)
