"""Supervise one command: start it, wait for its end, and kill all processes that it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any

from .launch import (
    AVAILABLE,
    LaunchError,
    Request,
    adopt_orphans,
    launch,
    name_process,
    signal_when_parent_dies,
)
from .tree import kill_descendants, send_group

PARENT_DIED = signal.SIGUSR2  # the guardian has died, or reports that the worker has died
ORPHANED = "orphaned"  # ``stopped_by`` of a command whose monitor has lost its guardian
TERMINATE = b"T"  # sent by the worker to end the command
RUN = b"R"  # followed by the descriptors of the command and the request
_DESCRIPTORS = 8
_KILL_TIMEOUT_SECONDS = 10.0
_LENGTH = 8


class CommandMonitor:
    """The supervision of one command. Reports to the worker: ``started``, then ``ended``; or ``refused``."""

    def __init__(self, worker: socket.socket, wakeup: int) -> None:
        self._worker = worker
        self._wakeup = wakeup
        self._pid = 0
        self._started = 0.0
        self._status: int | None = None
        self._usage: dict[str, float] = {}
        self._kill_at = float("inf")
        self._stopped_by: str | None = None

    def supervise(self, request: Request, descriptors: Sequence[int]) -> bool:
        """Run the command until none of its processes is left. Return whether this monitor can be reused."""
        try:
            self._pid = launch(request, descriptors)
        except LaunchError as error:
            send_event(self._worker, "refused", stage=error.stage, number=error.number, text=str(error))
            return True
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._started = time.monotonic()
        send_event(self._worker, "started", pid=self._pid)
        self._wait(request)
        if not AVAILABLE:
            send_group(self._pid, signal.SIGKILL)  # without subreapers, only the group can be killed
        all_gone = kill_descendants(self._children_left, timeout=_KILL_TIMEOUT_SECONDS)
        send_event(self._worker, "ended", **self._ending(all_gone))
        if not all_gone:
            kill_descendants(self._children_left)
        return self._stopped_by != ORPHANED

    def _wait(self, request: Request) -> None:
        """Wait until the command has ended, or all its processes must be killed."""
        ends_at = self._started + request["timeout"] if request["timeout"] is not None else float("inf")
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._worker, select.POLLIN)
        while self._children_left() and self._status is None:
            now = time.monotonic()
            if now >= self._kill_at:
                return
            if now >= ends_at and self._stopped_by is None:
                self._terminate("timeout", request["grace"])
            until = min(self._kill_at, ends_at if self._stopped_by is None else float("inf"))
            ready = {fd for fd, _ in poll.poll(_milliseconds(until - now))}
            if self._wakeup in ready and PARENT_DIED in os.read(self._wakeup, 4096):
                self._kill(ORPHANED)
            if self._worker.fileno() in ready:
                self._handle_order(request["grace"])

    def _handle_order(self, grace: float) -> None:
        try:
            order = self._worker.recv(1)
        except ConnectionError:
            order = b""
        if order == TERMINATE and self._stopped_by is None:
            self._terminate("order", grace)
        elif not order:  # the worker closed the connection: it has died, or wants the command killed
            self._kill(self._stopped_by or "order")

    def _terminate(self, reason: str, grace: float) -> None:
        self._stopped_by = reason
        self._kill_at = time.monotonic() + grace
        send_group(self._pid, signal.SIGTERM)
        send_group(self._pid, signal.SIGCONT)  # a stopped process could not handle the signal

    def _kill(self, reason: str) -> None:
        self._stopped_by = reason
        self._kill_at = 0.0
        send_group(self._pid, signal.SIGKILL)  # kill_descendants kills the other processes, if there is /proc

    def _children_left(self) -> bool:
        """Reap dead children, and return whether any child is left.

        Orphans become children of this process, so without children there are no descendants.
        """
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._status = os.waitstatus_to_exitcode(status)
                self._usage = {"cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss}

    def _ending(self, all_gone: bool) -> dict[str, Any]:
        return {
            "status": self._status,
            "seconds": time.monotonic() - self._started,
            "stopped_by": self._stopped_by,
            "all_gone": all_gone,
            **self._usage,
        }


def serve(worker: socket.socket, guardian: int) -> None:
    """Supervise one command after the other, because forking a monitor costs as much as all other steps."""
    name_process("posthouse-mon")
    adopt_orphans()
    signal_when_parent_dies(PARENT_DIED)
    wakeup = _listen_to_signals()
    while True:
        signal.signal(PARENT_DIED, signal.SIG_DFL)  # ends an idle monitor
        if os.getppid() != guardian:
            return
        order, received = receive(worker)
        if not order:
            return
        if order == TERMINATE:
            continue  # sent before the worker received the report of the command's end
        request = _request(worker)
        if request is None:
            return
        signal.signal(PARENT_DIED, do_nothing)
        if os.getppid() != guardian:
            return
        if not CommandMonitor(worker, wakeup).supervise(request, received):
            return


def _listen_to_signals() -> int:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, do_nothing)
    return reading


def do_nothing(*_: object) -> None:
    """Handle a signal whose number is read from the wakeup pipe."""


def _request(worker: socket.socket) -> Request | None:
    """Return the request, or None if the worker withdrew it or died."""
    head = _exactly(worker, _LENGTH)
    body = _exactly(worker, int.from_bytes(head, "big")) if head else b""
    return json.loads(body) if body else None


def _exactly(worker: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        try:
            more = worker.recv(min(length - len(data), 1 << 20))
        except ConnectionError:
            return b""
        if not more:
            return b""
        data += more
    return bytes(data)


def receive(source: socket.socket) -> tuple[bytes, list[int]]:
    """Receive one byte and its descriptors; both are empty if the other side has disconnected."""
    try:
        data, received, _, _ = socket.recv_fds(source, 1, _DESCRIPTORS)
    except ConnectionError:
        return b"", []
    for descriptor in received:
        os.set_inheritable(descriptor, False)  # Python before 3.13 drops the flag for it
    return data, received


def send_event(worker: socket.socket, event: str, **fields: Any) -> None:
    """Send a line of JSON."""
    with contextlib.suppress(OSError):
        worker.sendall(json.dumps({"event": event, **fields}).encode() + b"\n")


def _milliseconds(seconds: float) -> float | None:
    return None if seconds == float("inf") else max(0.0, seconds * 1000 + 1)
