"""What holds for every request: an id, a limit of its size, a limit of its time, a line in the log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posthouse.core.request_ids import request_id
from posthouse.server.problems import problem

REQUEST_SECONDS = 30.0
"""Until an answer has begun: streams may go on. Above what a statement may take (access.py)."""
BODY_ROOM = 65_536
"""Bytes of a body beside the payload in it."""

_log = logging.getLogger("posthouse.server")
_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_PROCESS = secrets.token_hex(6)
_numbers = itertools.count(1)


class Envelope:
    def __init__(self, app: ASGIApp, *, most_bytes: int, seconds: float = REQUEST_SECONDS) -> None:
        self._app = app
        self._most = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._most)
        token = request_id.set(exchange.id)
        try:
            await self._serve(exchange)
        finally:
            request_id.reset(token)
            exchange.log()

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

    def __init__(self, scope: Scope, receive: Receive, send: Send, most_bytes: int) -> None:
        self.scope = scope
        self._headers = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self._left = self._most = most_bytes
        given = self._headers.get(b"x-request-id", b"")
        self.id = given.decode() if _SANE.fullmatch(given) else f"{_PROCESS}-{next(_numbers):x}"
        self.status: int | None = None
        self.limit: asyncio.Timeout | None = None
        self._started = time.perf_counter()

    def refusal(self) -> tuple[int, str, str] | None:
        length = self._headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._most:
            return 413, "body_too_large", self._too_large
        if b"%00" in self.scope["query_string"] or "\x00" in self.scope["path"]:
            return 422, "invalid_request", "the address contains a NUL character"
        return None

    @property
    def _too_large(self) -> str:
        return f"the body has more than {self._most:,} bytes"

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(413, self._too_large)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self.id.encode())]
            if self.limit is not None:
                self.limit.reschedule(None)
        await self._send(message)

    def log(self) -> None:
        """Each request at the level debug, those that failed here as warnings."""
        level = logging.DEBUG if (self.status or 0) < 500 else logging.WARNING  # noqa: PLR2004
        if _log.isEnabledFor(level):
            took = (time.perf_counter() - self._started) * 1000
            where = f"{self.scope['method']} {self.scope['path']}"
            _log.log(level, "%s: %s in %.1f ms", where, self.status, took, extra={"request_id": self.id})
