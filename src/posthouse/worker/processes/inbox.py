"""Calls on their way to a process: a message socket whose reading end the worker keeps too.

A process reads one call, runs it, and reads the next. A call that has not started is still in the socket, and
the worker can take it back by reading it, even if the process is busy: the kernel gives each message to one
reader. No call waits behind a handler that hangs, and the call that was running when a process died is known
exactly.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from posthouse.worker.processes.wire import Message, line, parsed

INLINE_BYTES = 32_768
"""Larger calls are sent over the other connection, and only their number is sent here."""
BYE = b"bye"


def _pair() -> tuple[socket.socket, socket.socket]:
    with suppress(OSError):  # not available on macOS
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


class Inbox:
    """The worker's end."""

    def __init__(self) -> None:
        self._writing, self.reading = _pair()
        self._writing.setblocking(False)

    def put(self, data: bytes) -> bool:
        """Send a call. Returns False if the socket is full."""
        try:
            self._writing.send(data)
        except BlockingIOError:
            return False
        except OSError:  # the process has just died
            return False
        return True

    def take_back(self) -> list[int]:
        """Take back the calls that were not started, and return their numbers."""
        taken: list[int] = []
        with suppress(BlockingIOError):
            while data := self.reading.recv(INLINE_BYTES * 2, socket.MSG_DONTWAIT):
                taken.append(parsed(data)["run"])
        return taken

    def close(self) -> None:
        self._writing.close()
        self.reading.close()


def next_call(reading: socket.socket) -> Message | None:
    """Return the next call in the process, or None when there are no more."""
    data = reading.recv(INLINE_BYTES * 2)
    return None if data in {b"", BYE} else parsed(data)


def inline(call: Message) -> bytes | None:
    data = line(call)
    return data if len(data) <= INLINE_BYTES else None
