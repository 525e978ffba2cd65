"""A redis-server or valkey-server of our own, on a free port and without a file."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from redis.exceptions import RedisError

from redis import Redis

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
MISSING = "needs redis-server: apt-get install redis-server"
START_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """``options``: further ones of redis-server. ``login``: arguments with which redis-py connects.

    ``file``: a configuration file that the server may write to, which a Sentinel needs.
    """

    def __init__(
        self, *options: str, login: Mapping[str, Any] | None = None, file: Path | None = None
    ) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        port = "--tls-port" if login and login.get("ssl") else "--port"
        nothing_kept = () if file else ("--save", "", "--appendonly", "no")
        place = ("--port", "0", port, str(self.port), "--bind", "127.0.0.1", *nothing_kept)
        self._command = (str(PROGRAM), *([str(file)] if file else []), *place, *options)
        self._login = login or {}
        self._folder = tempfile.TemporaryDirectory(prefix="redis-")  # a replica writes what it receives
        self.start()

    def start(self) -> None:
        """Start, with no data."""
        assert PROGRAM is not None, MISSING
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, cwd=self._folder.name)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"redis-server did not start on port {self.port}")
            time.sleep(0.01)

    def client(self) -> Redis:
        return Redis(host="127.0.0.1", port=self.port, decode_responses=True, **self._login)

    def _answers(self) -> bool:
        with suppress(RedisError), self.client() as client:
            client.ping()
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.resume()
            self.kill()
        self._folder.cleanup()
