"""The supervisor's end of one child process."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Protocol
from uuid import UUID

from posthouse.commands.child import Child
from posthouse.commands.guardian_client import GuardianClient
from posthouse.supervisor.channel import STACKS
from posthouse.worker.status import SharedStatus, shared_memory

CHILD_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from posthouse.cli.child import main; main()"
)
_STACKS_LIMIT = 16_000


class Owner(Protocol):
    """The interface of the supervisor for its children."""

    def on_message(self, child: WorkerChild, message: Mapping[str, Any]) -> None: ...
    def on_end(self, child: WorkerChild, code: int) -> None: ...


class WorkerChild:
    """A worker in its own process."""

    def __init__(self, owner: Owner, number: int, spec: Mapping[str, Any], guardian: GuardianClient) -> None:
        self._owner = owner
        self.number = number
        self.started_at = time.monotonic()
        self.worker_id: UUID | None = None
        """Set when the worker has started."""
        self.name = f"#{number}"
        self.is_leaving = False
        """Whether the child is being replaced, or is drained by an operator."""
        self.is_killed = False
        self.silent_since: tuple[float, float] | None = None
        self.metrics = ""
        self.measured: asyncio.Future[None] | None = None
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._stacks: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        memory = shared_memory()
        self.status = SharedStatus(memory)
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        try:
            handed = [theirs.fileno(), memory, self._stacks.fileno()]
            argv = [sys.executable, "-c", CHILD_CODE, json.dumps(sys.path)]
            self._child = Child(argv, handed, guardian=guardian, on_end=self._on_end)
        finally:
            theirs.close()
            os.close(memory)
        self._loop.add_reader(self._socket, self._readable)
        self.send(spec=spec, number=number)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_ready(self) -> bool:
        return self.worker_id is not None

    def send(self, **message: Any) -> None:
        with suppress(OSError):
            self._socket.send(json.dumps(message).encode() + b"\n")

    def ask_for_metrics(self) -> asyncio.Future[None]:
        """Request metrics, and return a future that is done when ``metrics`` is updated."""
        if self.measured is None or self.measured.done():
            self.measured = self._loop.create_future()
            self.send(metrics=True)
        return self.measured

    def kill(self) -> None:
        """Kill the process and everything that it started."""
        self.is_killed = True
        self._child.kill()

    def ask_for_stacks(self) -> None:
        if self.pid and self._child.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, STACKS)

    def stacks(self) -> str:
        """Return the stacks of its threads that the process wrote on request, or when it crashed."""
        self._stacks.seek(0)
        return self._stacks.read(_STACKS_LIMIT).decode(errors="replace")

    def _readable(self) -> None:
        try:
            data = self._socket.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._socket)
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._owner.on_message(self, json.loads(line))

    def _on_end(self, code: int) -> None:
        self._readable()  # its last messages
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self.ended.set_result(code)
        self._owner.on_end(self, code)

    def close(self) -> None:
        """Close the file and the memory that show why the process ended."""
        self._stacks.close()
        self.status.close()
