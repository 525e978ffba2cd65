"""Listening sockets of servers."""

from __future__ import annotations

import socket

from posthouse.errors import ConfigurationError


def listen(host: str, port: int) -> socket.socket:
    """Bind the port before anything else starts, so that a second start fails immediately."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "stop the program that uses the port, or choose another one with --port"
        ) from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
