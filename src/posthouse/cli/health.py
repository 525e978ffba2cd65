"""A small HTTP endpoint that says whether all is well."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import psycopg

from posthouse.errors import ConfigurationError
from posthouse.insights import overview
from posthouse.storage.connect import Line

REQUEST_SECONDS = 5.0
ANSWER_SECONDS = 5.0
_REASONS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}
ELSEWHERE = """\
The console is on its way. Until then:
  GET /health              whether all is well
  posthouse jobs list      what there is to do
  posthouse queues         how deep the queues are
  posthouse doctor         what is wrong, if anything
"""


def listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything else is started, so that a second start fails at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "stop what is there or choose another with --port"
        ) from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Health:
    def __init__(self, url: str, offline_after: float) -> None:
        self._line = Line(url, "health")
        self._offline_after = offline_after
        self._server: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve, sock=listening)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._line.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_SECONDS)
            writer.write(await self._answer(head.decode("latin-1").split(" ", 2)))
            await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _answer(self, request: list[str]) -> bytes:
        method, path = (*request, "", "")[:2]
        if method not in {"GET", "HEAD"} or path.partition("?")[0] != "/health":
            return _response(404, ELSEWHERE, "text/plain; charset=utf-8")
        status, state = await self._state()
        return _response(status, json.dumps(state) + "\n", "application/json", body=method == "GET")

    async def _state(self) -> tuple[int, dict[str, Any]]:
        try:
            found = await asyncio.wait_for(
                self._line.run(lambda c: overview(c, offline_after=self._offline_after)), ANSWER_SECONDS
            )
        except (psycopg.Error, TimeoutError):
            return 503, {"status": "unavailable", "database": "unreachable"}
        return 200, {"status": "ok", "database": "ok", **asdict(found)}


def _response(status: int, text: str, kind: str, *, body: bool = True) -> bytes:
    content = text.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (content if body else b"")
