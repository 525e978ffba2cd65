"""Middleware for all requests: request id, limits of size and time, common headers and access log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posthouse.core.redaction.logs import tell
from posthouse.server.http.auth import PRINCIPAL, ROUTE
from posthouse.server.http.problems import Rejected, problem
from posthouse.server.http.requests import LIMIT_BODY
from posthouse.tracing import Traces

REQUEST_SECONDS = 30.0
"""Time until the response must start; streams may then continue. Longer than the statement timeout
(auth.py). For file uploads the limit applies between two pieces of the body, not to processing.
"""
BODY_SECONDS = 20.0
"""Time until the whole body must have arrived; for file uploads, until the next piece."""
BODY_ROOM = 65_536
"""Bytes allowed in a body in addition to the payload."""

Observe = Callable[[str, str | None, int, float], None]
Check = Callable[[Scope], Awaitable[None]]

_DEFAULT_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_log = logging.getLogger("posthouse.server.requests")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_PROCESS = secrets.token_hex(6)
_numbers = itertools.count(1)
_id: ContextVar[str | None] = ContextVar("posthouse_request_id", default=None)


def route_of(scope: Scope) -> str | None:
    """Return the route template, such as /jobs/{job_id}; None if no route matched."""
    whole = scope.get("fastapi", {}).get("effective_route_context")  # newer FastAPI: with the router's prefix
    found = getattr(whole, "path", None) or getattr(scope.get("route"), "path", None)
    return found or scope.get(ROUTE)


def _unobserved(method: str, route: str | None, status: int, seconds: float) -> None:
    """Ignore the request."""


def _log_fields() -> dict[str, object]:
    """Return the fields added to each log line of a request."""
    current = _id.get()
    return {} if current is None else {"request_id": current}


async def _unchecked(scope: Scope) -> None:
    """Accept the request."""


tell(_log_fields)


class _Limits(NamedTuple):
    """Limits of a request: bytes of the body, seconds until the response starts, seconds for the body."""

    max_bytes: int
    seconds: float
    body_seconds: float


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: int,
        seconds: float = REQUEST_SECONDS,
        body_seconds: float = BODY_SECONDS,
        before_body: Check = _unchecked,
        observe: Observe = _unobserved,
    ) -> None:
        self._app = app
        self._observe = observe
        self._before_body = before_body
        self._limits = _Limits(max_bytes, seconds, body_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = _RequestState(scope, receive, send, self._limits, self._before_body)
        token = _id.set(state.id)
        try:
            await self._serve(state)
        finally:
            _id.reset(token)
            state.log()
            self._observe(state.method, state.route, state.status or 0, state.seconds_to_response)

    async def _serve(self, state: _RequestState) -> None:
        if (rejection := state.rejection()) is not None:
            await problem(*rejection)(state.scope, state.receive, state.send)
            return
        try:
            async with asyncio.timeout(self._limits.seconds) as limit:
                state.limit = limit
                await self._app(state.scope, state.receive, state.send)
        except TimeoutError:
            if state.status is not None or not limit.expired():
                raise
            answer = problem(
                503,
                "took_too_long",
                f"the request timed out after {self._limits.seconds:g} s; retry it, or request less data",
            )
            await answer(state.scope, state.receive, state.send)


class _RequestState:
    """One request and its response."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: _Limits,
        before_body: Check,
    ) -> None:
        scope[LIMIT_BODY] = self.limit_body
        self.scope = scope
        self._headers = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self._left = self._max_bytes = limits.max_bytes
        self._seconds = limits.seconds
        self._body_seconds = limits.body_seconds
        self._before_body = before_body
        self._reading = self._is_read = False
        self._read_until = 0.0
        self._takes_files = False
        given = self._headers.get(b"x-request-id", b"")
        self.id = given.decode() if _REQUEST_ID.fullmatch(given) else f"{_PROCESS}-{next(_numbers):x}"
        self.status: int | None = None
        self.limit: asyncio.Timeout | None = None
        self._started = time.perf_counter()
        self._answered: float | None = None

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def route(self) -> str | None:
        return route_of(self.scope)

    @property
    def seconds_to_response(self) -> float:
        """Seconds until the response started; the rest depends on the client."""
        return (self._answered or time.perf_counter()) - self._started

    def rejection(self) -> tuple[int, str, str] | None:
        if b"%00" in self.scope["query_string"] or "\x00" in self.scope["path"]:
            return (
                422,
                "invalid_request",
                "the URL contains a NUL character (%00), which Postgres cannot store; remove it",
            )
        return None

    @property
    def _too_large(self) -> str:
        return (
            f"the request body is larger than the limit of {self._max_bytes:,} bytes; send less data per "
            "request"
        )

    @property
    def _too_slow(self) -> str:
        return f"the request body did not arrive within {self._body_seconds:g} s; send it again"

    def limit_body(self, max_bytes: int, *, is_file: bool = False) -> None:
        """Set the size limit of the body. A file upload may take as long as pieces keep arriving."""
        self._left += max_bytes - self._max_bytes
        self._max_bytes = max_bytes
        self._takes_files = is_file

    async def receive(self) -> Message:
        if not self._reading:
            await self._begin_reading()
        message = await self._next()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(413, self._too_large)
            self._is_read = not message.get("more_body", False)
        if self._takes_files and self.status is None:  # processing a complete file has no time limit
            self._end_at(asyncio.get_running_loop().time() + self._seconds if not self._is_read else None)
        return message

    async def _begin_reading(self) -> None:
        """Reject a request before its body is read: without permission, or if the body is too large."""
        self._reading = True
        try:
            await self._before_body(self.scope)
        except Exception as error:
            raise Rejected(error) from error  # FastAPI answers 400 to other errors while it reads a body
        if self._content_length > self._max_bytes:  # the route has set its limit by now
            raise HTTPException(413, self._too_large)
        self._read_until = asyncio.get_running_loop().time() + self._body_seconds

    async def _next(self) -> Message:
        if self._is_read:  # the only message left is the disconnect
            return await self._receive()
        if self._takes_files:
            self._read_until = asyncio.get_running_loop().time() + self._body_seconds
        try:
            async with asyncio.timeout_at(self._read_until):
                return await self._receive()
        except TimeoutError:
            raise HTTPException(408, self._too_slow, {"Connection": "close"}) from None

    def _end_at(self, time: float | None) -> None:
        """Set when the request times out.

        After the timeout this does nothing, because the response then reports the timeout.
        """
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(time)

    @property
    def _content_length(self) -> int:
        length = self._headers.get(b"content-length", b"0")
        return int(length) if length.isdigit() else 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._answered = time.perf_counter()
            message["headers"] = self._with_default_headers(message.get("headers", ()))
            self._end_at(None)
        await self._send(message)

    def _with_default_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the headers with the request id, and with the default headers, unless they are set."""
        given = [*headers, (b"x-request-id", self.id.encode())]
        names = {name.lower() for name, _ in given}
        return given + [item for item in _DEFAULT_HEADERS if item[0] not in names]

    def log(self) -> None:
        """Log the route template, not the URL: paths and queries may contain secrets."""
        level = logging.WARNING if self.status is not None and self.status >= 500 else logging.INFO  # noqa: PLR2004
        if not _log.isEnabledFor(level):
            return
        milliseconds = round((time.perf_counter() - self._started) * 1000, 1)
        principal = self.scope.get(PRINCIPAL)
        extra = {
            "request_id": self.id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "milliseconds": milliseconds,
            "principal": principal,
        }
        suffix = f" principal={principal}" if principal else ""
        text = "request completed method=%s route=%s status=%s milliseconds=%.1f%s"
        _log.log(level, text, self.method, self.route, self.status, milliseconds, suffix, extra=extra)


_ERRORS = 500


class TracingMiddleware:
    def __init__(self, app: ASGIApp, *, traces: Traces) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        method = scope["method"]
        with self._traces.span(
            method, "SERVER", {"http.request.method": method}, parent=self._traces.from_text(given)
        ) as span:

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _ERRORS:
                        self._traces.fail(span, str(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, answer)
            finally:
                route = route_of(scope)
                if route is not None:  # known only now
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                if PRINCIPAL in scope:
                    span.set_attribute("posthouse.principal", scope[PRINCIPAL])
