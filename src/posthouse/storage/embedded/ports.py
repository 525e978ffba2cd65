"""The port of the server."""

from __future__ import annotations

import random
import socket

from posthouse.storage.embedded.state import HOST

# Below the ports that kernels use for outgoing connections, so that the port is still free at the next
# start and the URL stays the same.
OURS = range(20_000, 32_000)
TRIES = 50


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Postgres does: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def choose() -> int:
    for port in random.sample(OURS, TRIES):
        if is_free(port):
            return port
    return _any_free()


def _any_free() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
