"""The child's end: report that the process runs, and handle the messages of the supervisor."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from posthouse.commands.child import FIRST_DESCRIPTOR
from posthouse.supervisor.liveness import tick_seconds
from posthouse.worker.status import SharedStatus
from posthouse.worker.worker import Worker

RECYCLE_CHECK_SECONDS = 0.25
STACKS = signal.SIGQUIT
"""Makes a child write the stacks of its threads, even while its interpreter is blocked."""
_MEGABYTE = 1024 * 1024


class SupervisorChannel:
    """The connection to the supervisor, served by a separate thread."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=FIRST_DESCRIPTOR)
        self.status = SharedStatus(FIRST_DESCRIPTOR + 1)
        self._stacks: IO[bytes] = open(FIRST_DESCRIPTOR + 2, "ab", buffering=0)  # noqa: SIM115, PTH123
        for descriptor in range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + 3):
            os.set_inheritable(descriptor, False)
        self._received = b""
        self._sending = threading.Lock()
        self.drain = asyncio.Event()
        """Set when the worker must finish its jobs and stop."""
        self.release_jobs = asyncio.Event()
        """Set when the worker must release its jobs."""
        self.metrics: Callable[[], str] | None = None

    def receive(self) -> dict[str, Any]:
        """Wait for a message; exit if the supervisor has ended."""
        while b"\n" not in self._received:
            self._read()
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _read(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            os._exit(1)  # the supervisor has ended, so its guardian kills this process too
        self._received += data

    def send(self, **message: Any) -> None:
        with self._sending, suppress(OSError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def serve(self, worker: Worker) -> None:
        """Start to report that the worker runs. Must be called in the thread of the worker's event loop."""
        self.status.take_slot()
        self.status.note_loop()
        faulthandler.enable(self._stacks)
        faulthandler.register(STACKS, self._stacks)
        worker.loop.add_signal_handler(signal.SIGTERM, self.drain.set)
        worker.loop.add_signal_handler(signal.SIGINT, lambda: None)  # the supervisor decides
        threading.Thread(target=self._serve, args=(worker,), name="posthouse-status", daemon=True).start()

    def _serve(self, worker: Worker) -> None:
        tick = tick_seconds(worker.settings)
        while True:
            self.status.update(beat_at=worker.heartbeat.ran_at, deadline=worker.next_deadline)
            with suppress(RuntimeError):  # the loop is closed
                worker.loop.call_soon_threadsafe(self.status.note_loop)
            if select.select([self._socket], [], [], tick)[0]:
                self._read()
            while b"\n" in self._received:
                self._handle_message(self.receive(), worker.loop)

    def _handle_message(self, message: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        if "metrics" in message and self.metrics is not None:
            self.send(metrics=self.metrics())
        for name, event in (("drain", self.drain), ("release_jobs", self.release_jobs)):
            if name in message:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(event.set)


async def wait_for_recycling(worker: Worker) -> str:
    """Wait until the worker has run ``max_jobs`` or its process uses ``max_rss_mb``; return the reason."""
    settings = worker.settings
    if not (settings.max_jobs or settings.max_rss_mb):
        await asyncio.Event().wait()
    while True:
        await asyncio.sleep(RECYCLE_CHECK_SECONDS)
        if settings.max_jobs and worker.finished >= settings.max_jobs:
            return f"jobs={worker.finished}"
        if settings.max_rss_mb and (used := memory_mb()) > settings.max_rss_mb:
            return f"rss_mb={used:.0f}"


def memory_mb() -> float:
    """Return the resident memory of this process in MB."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # macOS, where only the peak is known
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (_MEGABYTE if sys.platform == "darwin" else 1024)
    return pages * resource.getpagesize() / _MEGABYTE
