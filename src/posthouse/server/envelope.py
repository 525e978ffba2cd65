"""What holds for every request: an id, a limit of its size, a limit of its time, a line in the log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posthouse.core.surroundings import tell
from posthouse.server.access import PRINCIPAL, ROUTE
from posthouse.server.bodies import LIFT
from posthouse.server.problems import problem

REQUEST_SECONDS = 30.0
"""Until an answer has begun: streams may go on. Above what a statement may take (access.py). A route that
takes files has them from each piece of the body to the next, and then what it needs.
"""
BODY_ROOM = 65_536
"""Bytes of a body beside the payload in it."""

Observe = Callable[[str, str | None, int, float], None]

_log = logging.getLogger("posthouse.server")
_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_PROCESS = secrets.token_hex(6)
_numbers = itertools.count(1)
_id: ContextVar[str | None] = ContextVar("posthouse_request_id", default=None)


def route_of(scope: Scope) -> str | None:
    """As it is written in the API, with names for what stands in it; None if it leads nowhere."""
    whole = scope.get("fastapi", {}).get("effective_route_context")  # newer: with the router's prefix
    found = getattr(whole, "path", None) or getattr(scope.get("route"), "path", None)
    return found or scope.get(ROUTE)


def _unobserved(method: str, route: str | None, status: int, seconds: float) -> None:
    """Nobody counts requests."""


def _told() -> dict[str, object]:
    """What every line says that is logged for a request."""
    current = _id.get()
    return {} if current is None else {"request_id": current}


tell(_told)


class Envelope:
    def __init__(
        self,
        app: ASGIApp,
        *,
        most_bytes: int,
        seconds: float = REQUEST_SECONDS,
        observe: Observe = _unobserved,
    ) -> None:
        self._app = app
        self._observe = observe
        self._most = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._most, self._seconds)
        token = _id.set(exchange.id)
        try:
            await self._serve(exchange)
        finally:
            _id.reset(token)
            exchange.log()
            self._observe(exchange.method, exchange.route, exchange.status or 0, exchange.answered_after)

    async def _serve(self, exchange: _Exchange) -> None:
        if (refusal := exchange.refusal()) is not None:
            await problem(*refusal)(exchange.scope, exchange.receive, exchange.send)
            return
        try:
            async with asyncio.timeout(self._seconds) as limit:
                exchange.limit = limit
                await self._app(exchange.scope, exchange.receive, exchange.send)
        except TimeoutError:
            if exchange.status is not None or not limit.expired():
                raise
            answer = problem(503, "took_too_long", f"there was no answer within {self._seconds:g} s")
            await answer(exchange.scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, most_bytes: int, seconds: float) -> None:
        scope[LIFT] = self.lift
        self.scope = scope
        self._headers = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self._left = self._most = most_bytes
        self._seconds = seconds
        self._takes_files = False
        given = self._headers.get(b"x-request-id", b"")
        self.id = given.decode() if _SANE.fullmatch(given) else f"{_PROCESS}-{next(_numbers):x}"
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
    def answered_after(self) -> float:
        """Seconds until the answer began: what comes after that is up to the client."""
        return (self._answered or time.perf_counter()) - self._started

    def refusal(self) -> tuple[int, str, str] | None:
        if b"%00" in self.scope["query_string"] or "\x00" in self.scope["path"]:
            return 422, "invalid_request", "the address contains a NUL character"
        return None

    @property
    def _too_large(self) -> str:
        return f"the body has more than {self._most:,} bytes"

    def lift(self, most_bytes: int) -> None:
        """The route takes files: of this size at most, and for as long as pieces keep coming."""
        self._left += most_bytes - self._most
        self._most = most_bytes
        self._takes_files = True

    async def receive(self) -> Message:
        if self._announced > self._most:  # not before a route asks: it may take more than others
            raise HTTPException(413, self._too_large)
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(413, self._too_large)
        if self._takes_files and self.limit is not None and self.status is None:
            more = message.get("more_body", False)  # a whole file may take its time to be dealt with
            self.limit.reschedule(asyncio.get_running_loop().time() + self._seconds if more else None)
        return message

    @property
    def _announced(self) -> int:
        length = self._headers.get(b"content-length", b"0")
        return int(length) if length.isdigit() else 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._answered = time.perf_counter()
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self.id.encode())]
            if self.limit is not None:
                self.limit.reschedule(None)
        await self._send(message)

    def log(self) -> None:
        """By its route: what stands in an address, or behind it, may be a secret."""
        if not _log.isEnabledFor(logging.INFO):
            return
        milliseconds = round((time.perf_counter() - self._started) * 1000, 1)
        principal = self.scope.get(PRINCIPAL)
        about = {
            "request_id": self.id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "milliseconds": milliseconds,
            "principal": principal,
        }
        _log.info(
            "%s %s: %s in %.1f ms%s", self.method, self.route or "(no such route)", self.status, milliseconds,
            f" for {principal}" if principal else "", extra=about,
        )  # fmt: skip
