"""The HTTP connection of a remote worker: requests, pauses before retries, and the heartbeat.

A remote worker has no liveness lock; its leases show that it is alive.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from pydantic_core import from_json, to_json

from posthouse.errors import (
    ArtifactNotFound,
    ConfigurationError,
    Forbidden,
    InvalidArtifact,
    LeaseLost,
    NotAuthenticated,
    PosthouseError,
    RequestRejected,
    ServerUnavailable,
)
from posthouse.settings import Settings
from posthouse.waiting import until_readable, wait_for_event

_LATER = {408, 425, 429}
_OURS: dict[str, type[PosthouseError]] = {
    kind.code: kind for kind in (LeaseLost, NotAuthenticated, Forbidden, ArtifactNotFound, InvalidArtifact)
}


def content_of(response: httpx.Response) -> Any:
    """Return the JSON of a response, or raise the error that the response contains."""
    if response.is_success:
        return from_json(response.content) if response.content else None
    raise error_of(response)


def error_of(response: httpx.Response) -> PosthouseError:
    code, detail = _problem(response)
    if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or response.status_code in _LATER:
        return ServerUnavailable(detail)
    return _OURS.get(code, RequestRejected)(detail)


def _problem(response: httpx.Response) -> tuple[str, str]:
    """Return the error code and the message. A proxy may respond in another format."""
    try:
        problem = from_json(response.content)
        return str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return "", f"{response.url.host} answered with {response.status_code}"


_log = logging.getLogger("posthouse.worker")

PREFIX = "/api/v1/worker/"
ANSWER_SECONDS, MIN_ANSWER_SECONDS = 30.0, 5.0
CONNECT_SECONDS = 5.0
FIRST_PAUSE, MAX_PAUSE = 0.05, 5.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def options(settings: Settings) -> dict[str, Any]:
    """Return the arguments of an HTTP client, which verifies certificates and uses the configured proxies."""
    parts = urlsplit(settings.remote_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(
            f"invalid remote_url {settings.remote_url!r}: expected http://host or https://host"
        )
    if not settings.remote_key:
        raise ConfigurationError("a remote worker needs an API key; pass --key or set POSTHOUSE_REMOTE_KEY")
    return {
        "base_url": settings.remote_url.rstrip("/") + PREFIX,
        "headers": {"Authorization": f"Bearer {settings.remote_key}", "Content-Type": "application/json"},
        "timeout": httpx.Timeout(answer_seconds(settings.lease_seconds), connect=CONNECT_SECONDS),
    }


def answer_seconds(lease_seconds: float) -> float:
    """Return how long to wait for a response, so that a lost report is repeated while its lease is valid."""
    return min(ANSWER_SECONDS, max(MIN_ANSWER_SECONDS, lease_seconds / 2))


def warn_of_plain_http(settings: Settings) -> None:
    parts = urlsplit(settings.remote_url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        _log.warning(
            "the connection to %s is not encrypted: the API key and the jobs can be read in transit",
            parts.netloc,
        )


def _is_not_ours(record: logging.LogRecord) -> bool:
    """Return False for the lines that httpx logs for requests of workers, which send several per second."""
    return PREFIX not in record.getMessage()


logging.getLogger("httpx").addFilter(_is_not_ours)


class HttpConnection:
    """The connection to a server, shared by the stores of a remote worker."""

    def __init__(self, settings: Settings) -> None:
        self._client = httpx.AsyncClient(**options(settings))
        self._failures = 0
        self._answered = asyncio.Event()
        # A caller may have to report outcomes before leases expire.
        self._longest = min(MAX_PAUSE, settings.lease_seconds / 6)

    async def get(self, path: str, **arguments: Any) -> Any:
        return await self.ask("GET", path, **arguments)

    async def post(self, path: str, body: bytes, *, seconds: float | None = None) -> Any:
        timeout: Any = httpx.USE_CLIENT_DEFAULT
        if seconds is not None:
            timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        return await self.ask("POST", path, content=body, timeout=timeout)

    async def ask(self, method: str, path: str, **arguments: Any) -> Any:
        """Send a request. Raises ServerUnavailable, after a pause, if the request may be sent again.

        After a failure, requests close their connection. A connection that is kept open may lead to a server
        that is stopping, and every retry would use it.
        """
        if self._failures:
            arguments["headers"] = {**arguments.get("headers", {}), "Connection": "close"}
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
        """Wait before a retry, at most until another request succeeds, because the server is back then."""
        self._failures += 1
        self._answered.clear()
        await wait_for_event(self._answered, pause_after(self._failures, self._longest))

    async def close(self) -> None:
        await self._client.aclose()


def pause_after(failures: int, most: float) -> float:
    longest = min(most, FIRST_PAUSE * 2 ** min(failures, 16))
    return random.uniform(longest / 4, longest)  # noqa: S311 - jitter


class HttpHeartbeatConnection:
    holds_liveness_lock = False

    def __init__(self, client: httpx.Client, worker_id: UUID, lease_seconds: float) -> None:
        self._client = client
        self._worker = str(worker_id)
        self._lease_seconds = lease_seconds

    def beat(self, ids: Sequence[str], tokens: Sequence[str]) -> list[tuple[str, str]]:
        body = to_json(
            {
                "worker_id": self._worker,
                "lease_seconds": self._lease_seconds,
                "jobs": [{"id": job_id, "token": token} for job_id, token in zip(ids, tokens, strict=True)],
            }
        )
        try:
            answer: dict[str, Any] = content_of(self._client.post("heartbeat", content=body))
        except httpx.TransportError as error:
            raise ServerUnavailable(f"{type(error).__name__}: {error}") from error
        verdicts = [(self._worker, "drain")] if answer["drain"] else []
        for field, verdict in (("lost", "lost"), ("canceled", "cancel"), ("busy", "busy")):
            verdicts += [(UUID(job_id).hex, verdict) for job_id in answer[field]]
        return verdicts

    def wait(self, wakeup: int, seconds: float) -> None:
        """Wait only for the wakeup, because there may be no connection between two heartbeats."""
        until_readable(seconds, wakeup)
