"""Calls on their way to a process: a socket of whole messages, whose reading end the worker keeps too.

A process reads one call, runs it, and reads the next. So what has not been started is still in the socket,
and the worker can take it back by reading it itself, whatever the process is doing: the kernel gives every
message to one reader. Nothing waits behind a handler that hangs, and whoever was running when a process
died is known exactly.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from posthouse.worker.processes.wire import Message, line, parsed

INLINE_BYTES = 32_768
"""Larger calls go over the connection for all else, and only their number comes here."""
BYE = b"bye"


def _pair() -> tuple[socket.socket, socket.socket]:
    with suppress(OSError):  # macOS has none
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


class Inbox:
    """The worker's end."""

    def __init__(self) -> None:
        self._writing, self.reading = _pair()
        self._writing.setblocking(False)

    def put(self, data: bytes) -> bool:
        """False if there is no room."""
        try:
            self._writing.send(data)
        except BlockingIOError:
            return False
        except OSError:  # it has just died
            return False
        return True

    def take_back(self) -> list[int]:
        """The numbers of the calls that were not started, and now will not be."""
        taken: list[int] = []
        with suppress(BlockingIOError):
            while data := self.reading.recv(INLINE_BYTES * 2, socket.MSG_DONTWAIT):
                taken.append(parsed(data)["run"])
        return taken

    def close(self) -> None:
        self._writing.close()
        self.reading.close()


def next_call(reading: socket.socket) -> Message | None:
    """In the process: the next call, or None when there will be no more."""
    data = reading.recv(INLINE_BYTES * 2)
    return None if data in {b"", BYE} else parsed(data)


def inline(call: Message) -> bytes | None:
    data = line(call)
    return data if len(data) <= INLINE_BYTES else None
