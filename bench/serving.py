"""A server process for benchmarks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def serving(url: str) -> Iterator[str]:
    command = [sys.executable, "-m", "posthouse", "server", "--port", "0", "--log-level", "warning"]
    environment = {
        **os.environ,
        "POSTHOUSE_DATABASE_URL": url,
        "NO_COLOR": "1",
        "POSTHOUSE_API_REQUESTS_PER_SECOND": "0",
    }
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        yield address[0]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)
