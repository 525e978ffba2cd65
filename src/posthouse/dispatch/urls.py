"""Clients for the URLs of Redis or Valkey: one server, Sentinel or Cluster, chosen by the scheme."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from posthouse.errors import ConfigurationError

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
SENTINEL_SECONDS = 0.25
"""How long one Sentinel may take to name the master, before the next one is asked."""
WAIT_SECONDS = 0.9
"""How long a request waits for a free connection."""


def masked(url: str) -> str:
    """Return the URL without user, password and parameters."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def client_of(url: str, pool_size: int) -> Any:
    """Return a client of redis-py, which connects when it is used."""
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
