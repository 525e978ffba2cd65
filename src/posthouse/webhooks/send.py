"""One POST to one checked address. All of it, from the lookup to the answer, shares one time limit.

By hand rather than with an HTTP library: the connection must go to the address that was checked, while the
certificate is that of the name; a trickle of bytes must not outlast the limit; nothing is followed.
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
    """``private``: addresses of private networks are fine. The rest is for tests."""

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
    """What the destination answered, if it took the message; else one of the errors."""
    started = time.monotonic()
    connection: _Connection | None = None
    try:
        async with asyncio.timeout(rules.timeout):
            connection = await _connect(url, rules)
            head = await _ask(connection, _head(url, headers, len(body)) + body)
        seconds = time.monotonic() - started
        answer = Answer(int(head[9:12]), await _read_body(connection[0], head), seconds)
    except TimeoutError:
        raise Unreachable(f"there was no answer within {rules.timeout:g} s") from None
    finally:
        if connection is not None:
            await _hang_up(connection[1])
    _check(answer)
    return answer


def _check(answer: Answer) -> None:
    said = f"it answered {answer.status}" + (f": {answer.body}" if answer.body else "")
    if 300 <= answer.status < 400:  # noqa: PLR2004 - the codes of redirects
        raise Misdirected(f"it answered {answer.status}, a redirect, which is not followed")
    if answer.status == _GONE:
        raise Misdirected(said)
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - those of success
        raise Refusal(said)


async def _ask(connection: _Connection, request: bytes) -> bytes:
    """Sends the request; returns the head of the answer."""
    reader, writer = connection
    try:
        writer.write(request)
        await writer.drain()
        return await _read_head(reader)
    except (OSError, EOFError) as error:
        raise Unreachable(f"the connection broke: {type(error).__name__}") from None


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
            trouble = f"its certificate is not valid: {error.verify_message}"
        except OSError as error:  # also what TLS has to say
            trouble = f"it cannot be reached: {type(error).__name__}"
    raise Unreachable(trouble)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """At once: what the other side still wants to say is of no interest."""
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
    """The head of the answer; those that only announce one are passed over."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise Unreachable("its answer is not HTTP: the head never ends") from None
        status = _STATUS.match(head)
        if status is None:
            raise Unreachable("its answer is not HTTP")
        if status[1][:1] != b"1":
            return head


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> str:
    """How the body begins, in one line. It is only for people: it is not waited for long."""
    length = _LENGTH.search(head)
    wanted = min(BODY_LIMIT, int(length[1])) if length else BODY_LIMIT
    found = bytearray()
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(BODY_SECONDS):
            while len(found) < wanted and (piece := await reader.read(wanted - len(found))):
                found += piece
    text = found.decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
