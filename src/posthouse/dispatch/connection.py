"""Connections to Redis: URLs, set-up, commands with time limits, and the circuit breaker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit, urlunsplit

from posthouse.errors import ConfigurationError, RedisUnavailable

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
SENTINEL_SECONDS = 0.25
"""How long one Sentinel may take to name the master, before the next Sentinel is queried."""
WAIT_SECONDS = 0.9
"""How long a request waits for a free connection."""


def masked(url: str) -> str:
    """Return the URL without user, password and parameters."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def client_of(url: str, pool_size: int) -> Any:
    """Return a client of redis-py, which connects on first use."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigurationError(f"redis_url must start with one of {known}, not {masked(url)!r}")
    try:
        from redis import asyncio as redis  # noqa: PLC0415 - the package is optional
    except ImportError:
        raise ConfigurationError(
            "POSTHOUSE_DISPATCH needs the Python package redis, which is not installed: "
            "run `pip install 'posthouse[redis]'`"
        ) from None
    try:
        if parts.scheme.endswith("+sentinel"):
            return _sentinel(parts, pool_size)
        if parts.scheme.endswith("+cluster"):
            plain = urlunsplit(parts._replace(scheme=parts.scheme.removesuffix("+cluster")))
            return redis.RedisCluster.from_url(plain, max_connections=pool_size, **_options())
        pool = redis.BlockingConnectionPool.from_url(
            url, max_connections=pool_size, timeout=WAIT_SECONDS, **_options()
        )
        return redis.Redis.from_pool(pool)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"redis_url is invalid: {error}") from None


def _options() -> dict[str, Any]:
    from redis.asyncio.retry import Retry  # noqa: PLC0415 - the package is optional
    from redis.backoff import NoBackoff  # noqa: PLC0415

    return {
        "decode_responses": True,
        "protocol": 2,  # responses have the same shape in all versions of redis-py
        # Redis.run limits the time of a request and of a connection. With a timeout of its own, redis-py
        # sends with asyncio.wait_for, which in Python 3.11 can lose a cancellation: the canceled task
        # continues to run.
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "retry": Retry(NoBackoff(), 0),  # the circuit breaker decides when to try again
    }


def _sentinel(parts: SplitResult, pool_size: int) -> Any:
    """Return a client of the master, for ``redis+sentinel://user:password@host:port,host:port/service/db``.

    User and password are those of the master; those of the Sentinels are the parameters sentinel_username and
    sentinel_password. With ``rediss+sentinel`` both are reached over TLS.
    """
    from redis.asyncio.connection import SSLConnection, parse_url  # noqa: PLC0415 - the package is optional
    from redis.asyncio.sentinel import Sentinel  # noqa: PLC0415

    login, at, hosts = parts.netloc.rpartition("@")
    service, _, number = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError(
            "a Sentinel URL ends with the name of the service: redis+sentinel://host:26379/mymaster"
        )
    sentinels = [
        (host, int(port or 26379)) for host, _, port in (item.partition(":") for item in hosts.split(","))
    ]
    scheme = parts.scheme.removesuffix("+sentinel")
    plain = parts._replace(scheme=scheme, netloc=f"{login}{at}master", path=f"/{number or 0}")
    master: dict[str, Any] = {**_options(), **parse_url(urlunsplit(plain))}
    own = {name: master.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    own |= {name: value for name, value in master.items() if name.startswith("ssl_")}
    own |= {"socket_timeout": SENTINEL_SECONDS, "socket_connect_timeout": SENTINEL_SECONDS}
    own["retry"] = master["retry"]
    master["ssl"] = own["ssl"] = master.pop("connection_class", None) is SSLConnection
    del master["host"]
    guarded: Any = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    return guarded.master_for(service, max_connections=pool_size, **master)


if TYPE_CHECKING:
    from posthouse.settings import Settings

T = TypeVar("T")

RESPONSE_SECONDS = 0.9
"""How long a response may take. A server that hangs is detected within a second."""
START_SECONDS = 5.0
"""The same for the first response to a starting process. Many processes that start at once use all cores."""


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

    async def run(self, request: Awaitable[T], seconds: float | None = RESPONSE_SECONDS) -> T:
        """Return the response to the request. Raise RedisUnavailable after ``seconds`` (None: no limit)."""
        try:
            async with asyncio.timeout(seconds):
                return await request
        except self._failures as error:
            reason = str(error) or f"no response within {seconds} s"
            raise RedisUnavailable(f"cannot use Redis at {self.shown}: {reason}") from error

    async def ping(self, seconds: float = RESPONSE_SECONDS) -> None:
        await self.run(self.client.ping(), seconds)

    async def close(self) -> None:
        await self.client.aclose()
        sentinel = getattr(getattr(self.client, "connection_pool", None), "sentinel_manager", None)
        for each in () if sentinel is None else sentinel.sentinels:
            await each.aclose()


def redis_of(settings: Settings) -> Redis | None:
    """Return a client for the settings, which connects on first use; None in database mode."""
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
    """Return the state of Redis for health checks: not configured, unreachable or ok."""
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


Command: TypeAlias = Sequence[str | bytes | int]

EXPECTED = ("NOGROUP", "UNBLOCKED", "BUSYGROUP", "no such key")
"""Errors about a stream. After any other error the connection is opened again, because its server may have
become a replica, or the slot may have moved.
"""


class RedisConnection:
    """A connection that opens on first use, and again after a failure. Only one request runs at a time."""

    def __init__(self, redis: Redis, anchor: str) -> None:
        """Create the connection. In a cluster, it is to the server that has the key ``anchor``."""
        self._redis = redis
        self._anchor = anchor
        self._connection: Any = None
        self._unread_responses = 0
        self._lock = asyncio.Lock()

    async def request(self, *commands: Command, seconds: float = RESPONSE_SECONDS) -> list[Any]:
        """Send the commands together and return their responses."""
        return await self._redis.run(self._exchange(commands), seconds)

    async def send(self, *commands: Command) -> None:
        """Send the commands. Their responses are read and ignored by the next request."""
        await self._redis.run(self._exchange(commands, wait=False))

    async def messages(self, channel: str) -> AsyncIterator[str | None]:
        """Subscribe to a channel. Yield None when subscribed, then each message, until Redis fails."""
        await self.request(("SUBSCRIBE", channel))
        yield None
        while True:
            _, _, text = await self._redis.run(self._connection.read_response(), None)
            yield text

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def _exchange(self, commands: Sequence[Command], *, wait: bool = True) -> list[Any]:
        async with self._lock:
            if self._connection is None:
                self._connection = await self._open()
            try:
                if not self._connection.is_connected:
                    await self._connection.connect()  # to the current master, behind a Sentinel
                await self._connection.send_packed_command(
                    self._connection.pack_commands(commands), check_health=False
                )
                self._unread_responses += len(commands)
                if not wait:
                    return []
                return await self._responses(len(commands))
            except BaseException:  # also cancellation: the next request would read this response
                await self._reset()
                raise

    async def _responses(self, last: int) -> list[Any]:
        found = [await self._response() for _ in range(self._unread_responses)][-last:]
        self._unread_responses = 0
        for response in found:
            if isinstance(response, Exception) and not str(response).startswith(EXPECTED):
                raise response
        return found

    async def _response(self) -> Any:
        try:
            return await self._connection.read_response()
        except self._redis.error_response as error:
            return error

    async def _open(self) -> Any:
        client = self._redis.client
        if not self._redis.is_cluster:
            return await client.connection_pool.get_connection()
        await client.initialize()
        return client.get_node_from_key(self._anchor).acquire_connection()

    async def _reset(self) -> None:
        """Disconnect. The next request connects again, in a cluster perhaps to another server."""
        self._unread_responses = 0
        await self._connection.disconnect(nowait=True)
        if self._redis.is_cluster:
            self._connection = None
            await self._redis.client.aclose()


FIRST_PAUSE = 0.1
MAX_PAUSE = 2.0
"""After an outage of any length, Redis is in use again within this time."""

State = Literal["closed", "open", "half-open"]


class Breaker:
    """A circuit breaker.

    ``closed``: Redis is used. ``open``: Redis is not used. ``half-open``: one request tests whether Redis is
    reachable again.
    """

    def __init__(self) -> None:
        self.state: State = "half-open"
        self.failures = 0
        self.openings = 0

    def failed(self) -> float:
        """Open the circuit. Return the seconds until the next try."""
        if self.state == "closed":
            self.openings += 1
        self.state = "open"
        self.failures += 1
        longest = min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 16))
        return random.uniform(0.5, 1.0) * longest  # noqa: S311 - workers must not return in lockstep

    def retry(self) -> None:
        self.state = "half-open"

    def succeeded(self) -> None:
        self.state = "closed"
        self.failures = 0
