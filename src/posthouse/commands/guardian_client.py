"""The worker's side of the guardian: start it on first use, and again if it has died."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from posthouse.errors import CommandInterrupted

_HOME = str(Path(__file__).parent)
_CODE = f"import sys; sys.path.append({_HOME!r}); from guardian.main import main; main({{fd}}, {{pid}})"
_EXIT_SECONDS = 15.0
_MAX_IDLE = 16  # each uses 1.3 MB


class GuardianClient:
    """The guardian of this process, and a pool of connections to idle monitors."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._idle: list[socket.socket] = []

    @property
    def pid(self) -> int | None:
        """The pid of the guardian, if it was started."""
        return self._process.pid if self._process else None

    def acquire(self) -> socket.socket:
        """Return a connection to a process that can run a command: an idle one or a new one."""
        while self._idle:
            monitor = self._idle.pop()
            if is_idle(monitor):
                return monitor
            monitor.close()
        return self._new_monitor()

    def release(self, monitor: socket.socket) -> None:
        """Return a connection to the pool after its command has ended."""
        if len(self._idle) < _MAX_IDLE and self._socket is not None:
            self._idle.append(monitor)
        else:
            monitor.close()

    def _new_monitor(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._send(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    def _send(self, descriptor: int) -> None:
        for _ in range(2):
            try:
                socket.send_fds(self._connection(), [b"m"], [descriptor])
            except (BrokenPipeError, ConnectionResetError):
                self._reset()  # the guardian has died
            except BlockingIOError:
                break
            else:
                return
        raise CommandInterrupted("the command supervisor does not respond; the command was not started")

    def _connection(self) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self._reset()
        if self._socket is None:
            self._start()
        assert self._socket
        return self._socket

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        code = _CODE.format(fd=theirs.fileno(), pid=os.getpid())
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command line
                [sys.executable, "-I", "-S", "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C goes to the worker only
                cwd="/",
                env={},
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _reset(self) -> None:
        self._close_idle()
        if self._socket:
            self._socket.close()
        if self._process:
            self._process.wait()
        self._socket = self._process = None

    def close(self) -> None:
        """Stop the guardian and all commands. Blocks until they are gone."""
        self._close_idle()
        if self._socket:
            self._socket.close()
        if self._process:
            try:
                self._process.wait(_EXIT_SECONDS)
            except subprocess.TimeoutExpired:  # a process hangs in the kernel; its monitor keeps trying
                self._process.kill()
                self._process.wait()
        self._socket = self._process = None


def is_idle(monitor: socket.socket) -> bool:
    """Return whether the monitor is alive and waits for a command. An idle monitor sends nothing."""
    try:
        monitor.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False
