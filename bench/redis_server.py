"""A redis-server or valkey-server of our own, on a free port and without a file."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import Self

from redis.exceptions import RedisError

from redis import Redis

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
MISSING = "needs redis-server: apt-get install redis-server"
START_SECONDS = 30.0


class RedisServer:
    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start, with no data."""
        assert PROGRAM is not None, MISSING
        place = ["--port", str(self.port), "--bind", "127.0.0.1"]
        command = [PROGRAM, *place, "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"redis-server did not start on port {self.port}")
            time.sleep(0.01)

    def client(self) -> Redis:
        return Redis(port=self.port, decode_responses=True)

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
