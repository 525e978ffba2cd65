"""Which addresses are allowed. A host is resolved once, and all of its addresses must be allowed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

from posthouse.webhooks.errors import AddressRefused, Unreachable

Address: TypeAlias = IPv4Address | IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16",
        "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    )
)  # fmt: skip
"""Where clouds answer their machines, with credentials too. Some lie in ranges that may be allowed."""

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
    """Return the addresses of a host; raise AddressRefused if any of them is not allowed."""
    try:
        found = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"cannot resolve the host: {_reason(error)}") from None
    if not found:
        raise Unreachable("the host has no address")
    for text in found:
        if not is_allowed(text, private=private):
            raise AddressRefused(
                "the host has an address that is not allowed"
                + ("" if private else "; POSTHOUSE_ALERT_PRIVATE_ADDRESSES=true allows private addresses")
            )
    return found


def is_allowed(text: str, *, private: bool) -> bool:
    """Return whether the address is public, or private where ``private`` allows that."""
    if "%" in text:  # a scope: only links and such have one
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
        address in _COMPATIBLE and int(low) > 1  # :: and ::1 are themselves
    )
    return address.ipv4_mapped or address.sixtofour or teredo or (low if embeds else address)


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else type(error).__name__
