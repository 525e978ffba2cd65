"""Send one HTTP POST to a checked address. Private networks and redirects are rejected."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import SplitResult, quote


class WebhookError(Exception):
    """A message was not delivered."""


class Unreachable(WebhookError):
    """No response. A retry may succeed."""


class DestinationRejected(WebhookError):
    """The destination responded with an error. A retry may succeed."""


class AddressNotAllowed(WebhookError):
    """The destination has an address that is not allowed. A retry does not help."""


class DestinationMoved(WebhookError):
    """The destination responded with a redirect or 410 Gone. A retry does not help."""


Address: TypeAlias = IPv4Address | IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16",
        "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    )
)  # fmt: skip
"""Addresses of cloud metadata services, which give credentials. Some are in ranges that may be allowed."""

_PRIVATE = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1", "fc00::/7",
    )
)  # fmt: skip
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ip_network("::/96")


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a host with the system resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def allowed_addresses(host: str, port: int, *, private: bool, resolver: Resolver) -> list[str]:
    """Return the addresses of a host. Raise AddressNotAllowed if one of them is not allowed."""
    try:
        found = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"cannot resolve the host: {_reason(error)}") from None
    if not found:
        raise Unreachable("the host has no address")
    for text in found:
        if not is_allowed(text, private=private):
            raise AddressNotAllowed(
                "the host has an address that is not allowed"
                + ("" if private else "; POSTHOUSE_ALERT_PRIVATE_ADDRESSES=true allows private addresses")
            )
    return found


def is_allowed(text: str, *, private: bool) -> bool:
    """Return whether the address is public, or is private and ``private`` allows that."""
    if "%" in text:  # a zone index, which only link-local and similar addresses have
        return False
    address = _inner(ip_address(text))
    if address in _METADATA:
        return False
    if any(address.version == network.version and address in network for network in _PRIVATE):
        return private
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_link_local
        or address.is_unspecified
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )


def _inner(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, if any."""
    if not isinstance(address, IPv6Address):
        return address
    teredo = address.teredo[1] if address.teredo is not None else None
    low = IPv4Address(int(address) & 0xFFFF_FFFF)
    embeds = any(address in network for network in _NAT64) or (
        address in _COMPATIBLE and int(low) > 1  # :: and ::1 embed no address
    )
    return address.ipv4_mapped or address.sixtofour or teredo or (low if embeds else address)


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else type(error).__name__


_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD_LIMIT = 32_768
BODY_LIMIT = 2_048
BODY_SECONDS = 2.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class PostOptions:
    """Options of a request: ``private`` allows private networks; ``resolver`` and ``tls`` are for tests."""

    timeout: float = 10.0
    private: bool = False
    resolver: Resolver = resolve
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a destination."""

    status: int
    body: str
    seconds: float


async def post(url: SplitResult, body: bytes, headers: Mapping[str, str], options: PostOptions) -> Response:
    """Send the message and return the response. Raise a WebhookError unless the message was accepted."""
    started = time.monotonic()
    connection: _Connection | None = None
    try:
        async with asyncio.timeout(options.timeout):
            connection = await _connect(url, options)
            head = await _send_request(connection, _head(url, headers, len(body)) + body)
        seconds = time.monotonic() - started
        response = Response(int(head[9:12]), await _read_body(connection[0], head), seconds)
    except TimeoutError:
        raise Unreachable(f"no response within {options.timeout:g} s") from None
    finally:
        if connection is not None:
            await _abort(connection[1])
    _check(response)
    return response


def _check(response: Response) -> None:
    message = f"the destination responded with status {response.status}" + (
        f": {response.body}" if response.body else ""
    )
    if 300 <= response.status < 400:  # noqa: PLR2004 - the codes of redirects
        raise DestinationMoved(
            f"the destination responded with status {response.status}: redirects are not followed"
        )
    if response.status == _GONE:
        raise DestinationMoved(message)
    if not 200 <= response.status < 300:  # noqa: PLR2004 - the codes of success
        raise DestinationRejected(message)


async def _send_request(connection: _Connection, request: bytes) -> bytes:
    """Send the request and return the header of the response."""
    reader, writer = connection
    try:
        writer.write(request)
        await writer.drain()
        return await _read_head(reader)
    except (OSError, EOFError) as error:
        raise Unreachable(f"the connection was lost: {type(error).__name__}") from None


async def _connect(url: SplitResult, options: PostOptions) -> _Connection:
    host = url.hostname or ""
    secure = url.scheme.lower() == "https"
    port = url.port or (443 if secure else 80)
    tls = (options.tls or _trusted()) if secure else None
    reason = ""
    for address in await allowed_addresses(host, port, private=options.private, resolver=options.resolver):
        try:
            return await asyncio.open_connection(
                address, port, ssl=tls, server_hostname=host if tls else None, limit=HEAD_LIMIT
            )
        except ssl.SSLCertVerificationError as error:
            reason = f"invalid certificate: {error.verify_message}"
        except OSError as error:  # includes TLS errors
            reason = f"cannot connect: {type(error).__name__}"
    raise Unreachable(reason)


async def _abort(writer: asyncio.StreamWriter) -> None:
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
    """Return the start of the body in one line, for error messages. Wait at most ``BODY_SECONDS``."""
    length = _LENGTH.search(head)
    wanted = min(BODY_LIMIT, int(length[1])) if length else BODY_LIMIT
    data = bytearray()
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(BODY_SECONDS):
            while len(data) < wanted and (piece := await reader.read(wanted - len(data))):
                data += piece
    text = data.decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
