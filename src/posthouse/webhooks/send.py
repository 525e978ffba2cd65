"""A POST request to a checked address. One timeout covers everything from DNS to the response.

Not done with an HTTP library: the connection must use the checked address while TLS verifies the host name, a
slow response must not outlast the timeout, and redirects must not be followed.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias
from urllib.parse import SplitResult, quote

from posthouse.webhooks.addresses import Resolver, allowed_addresses, resolve
from posthouse.webhooks.errors import Misdirected, Refusal, Unreachable

_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD_LIMIT = 32_768
BODY_LIMIT = 2_048
BODY_SECONDS = 2.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """``private``: allow addresses of private networks. The other fields are for tests."""

    timeout: float = 10.0
    private: bool = False
    resolver: Resolver = resolve
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: str
    seconds: float


async def post(url: SplitResult, body: bytes, headers: Mapping[str, str], rules: Rules) -> Answer:
    """Send the message and return the response; raise a WebhookError unless it was accepted."""
    started = time.monotonic()
    connection: _Connection | None = None
    try:
        async with asyncio.timeout(rules.timeout):
            connection = await _connect(url, rules)
            head = await _ask(connection, _head(url, headers, len(body)) + body)
        seconds = time.monotonic() - started
        answer = Answer(int(head[9:12]), await _read_body(connection[0], head), seconds)
    except TimeoutError:
        raise Unreachable(f"no response within {rules.timeout:g} s") from None
    finally:
        if connection is not None:
            await _hang_up(connection[1])
    _check(answer)
    return answer


def _check(answer: Answer) -> None:
    said = f"the destination responded with status {answer.status}" + (
        f": {answer.body}" if answer.body else ""
    )
    if 300 <= answer.status < 400:  # noqa: PLR2004 - the codes of redirects
        raise Misdirected(
            f"the destination responded with status {answer.status}: redirects are not followed"
        )
    if answer.status == _GONE:
        raise Misdirected(said)
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - those of success
        raise Refusal(said)


async def _ask(connection: _Connection, request: bytes) -> bytes:
    """Send the request and return the header of the response."""
    reader, writer = connection
    try:
        writer.write(request)
        await writer.drain()
        return await _read_head(reader)
    except (OSError, EOFError) as error:
        raise Unreachable(f"the connection was lost: {type(error).__name__}") from None


async def _connect(url: SplitResult, rules: Rules) -> _Connection:
    host = url.hostname or ""
    secure = url.scheme.lower() == "https"
    port = url.port or (443 if secure else 80)
    tls = (rules.tls or _trusted()) if secure else None
    trouble = ""
    for address in await allowed_addresses(host, port, private=rules.private, resolver=rules.resolver):
        try:
            return await asyncio.open_connection(
                address, port, ssl=tls, server_hostname=host if tls else None, limit=HEAD_LIMIT
            )
        except ssl.SSLCertVerificationError as error:
            trouble = f"invalid certificate: {error.verify_message}"
        except OSError as error:  # also what TLS has to say
            trouble = f"cannot connect: {type(error).__name__}"
    raise Unreachable(trouble)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close the connection at once, without reading the rest of the response."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


def _head(url: SplitResult, headers: Mapping[str, str], length: int) -> bytes:
    target = quote((url.path or "/") + (f"?{url.query}" if url.query else ""), safe="%/?:@!$&'()*+,;=~[]")
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {url.netloc}",
        "Connection: close",
        "Accept-Encoding: identity",
        f"Content-Length: {length}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the header of the response; skip informational (1xx) responses."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise Unreachable("the response is not HTTP: its header is too long") from None
        status = _STATUS.match(head)
        if status is None:
            raise Unreachable("the response is not HTTP")
        if status[1][:1] != b"1":
            return head


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> str:
    """Return the start of the body in one line, for error messages. Waits only briefly."""
    length = _LENGTH.search(head)
    wanted = min(BODY_LIMIT, int(length[1])) if length else BODY_LIMIT
    found = bytearray()
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(BODY_SECONDS):
            while len(found) < wanted and (piece := await reader.read(wanted - len(found))):
                found += piece
    text = found.decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
