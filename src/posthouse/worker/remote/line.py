"""The HTTP side of a remote worker: requests that can be repeated, over connections that are kept.

What cannot be reached is tried again by whoever asked: here is only the pause, longer each time and never
the same for two workers, so that a server that comes back is not met by all of them at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any
from urllib.parse import urlsplit

import httpx

from posthouse.errors import ConfigurationError, ServerUnavailable
from posthouse.settings import Settings
from posthouse.waiting import until_set
from posthouse.worker.remote.answers import content_of

_log = logging.getLogger("posthouse.worker")

PREFIX = "/api/v1/worker/"
ANSWER_SECONDS = 30.0
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def options(settings: Settings) -> dict[str, Any]:
    """Arguments of an HTTP client. Certificates are checked, and proxies of the environment used."""
    parts = urlsplit(settings.remote_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"remote_url is http(s)://host…, not {settings.remote_url!r}")
    if not settings.remote_key:
        raise ConfigurationError("a remote worker needs a key: --key, or POSTHOUSE_REMOTE_KEY")
    return {
        "base_url": settings.remote_url.rstrip("/") + PREFIX,
        "headers": {"Authorization": f"Bearer {settings.remote_key}", "Content-Type": "application/json"},
        "timeout": httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
    }


def warn_of_plain_http(settings: Settings) -> None:
    parts = urlsplit(settings.remote_url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        _log.warning("%s is not encrypted: whoever is on the way can read the key and the jobs", parts.netloc)


class HttpLine:
    def __init__(self, settings: Settings) -> None:
        self._client = httpx.AsyncClient(**options(settings))
        self._failures = 0
        self._answered = asyncio.Event()
        # Whoever waits here may have outcomes to tell, and leases that run out meanwhile.
        self._longest = min(LONGEST_PAUSE, settings.lease_seconds / 6)

    async def get(self, path: str, **arguments: Any) -> Any:
        return await self.ask("GET", path, **arguments)

    async def post(self, path: str, body: bytes, *, seconds: float | None = None) -> Any:
        timeout: Any = httpx.USE_CLIENT_DEFAULT
        if seconds is not None:
            timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        return await self.ask("POST", path, content=body, timeout=timeout)

    async def ask(self, method: str, path: str, **arguments: Any) -> Any:
        """Raises ServerUnavailable if it may be asked again, after a pause."""
        try:
            answer = content_of(await self._client.request(method, path, **arguments))
        except (httpx.TransportError, ServerUnavailable) as error:
            await self.pause()
            raise ServerUnavailable(f"{type(error).__name__}: {error}") from error
        self._failures = 0
        self._answered.set()
        return answer

    @property
    def client(self) -> httpx.AsyncClient:
        return self._client

    async def pause(self) -> None:
        """Ends early if somebody else gets an answer: the server is back."""
        self._failures += 1
        self._answered.clear()
        await until_set(self._answered, pause_after(self._failures, self._longest))

    async def close(self) -> None:
        await self._client.aclose()


def pause_after(failures: int, most: float) -> float:
    longest = min(most, FIRST_PAUSE * 2 ** min(failures, 16))
    return random.uniform(longest / 4, longest)  # noqa: S311 - jitter
