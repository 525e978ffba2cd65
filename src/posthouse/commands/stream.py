"""Read the two pipes of a command on the event loop without blocking it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Literal, TypeAlias

from posthouse.commands.masking import Masker
from posthouse.commands.output import Live, Tail
from posthouse.commands.progress import Progress, ProgressLines

_log = logging.getLogger("posthouse.commands")

StreamName: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = Callable[[StreamName, str], None]
OnProgress: TypeAlias = Callable[[Progress], None]

DELIVERY_SECONDS = 0.1
_CHUNK = 64 * 1024  # the capacity of a pipe
_MOST_LEFT_OVER = 1024 * 1024


class Throttle:
    """Limits how fast the output of all commands is read: 1 MB per 10 ms, a sixth of the loop's time.

    A flood of output is read at that rate, and everything else continues beside it.
    """

    WINDOW_SECONDS = 0.01
    WINDOW_BYTES = 1024 * 1024

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = self.WINDOW_BYTES
        self._ends = 0.0
        self._paused: list[Stream] = []

    def read(self, stream: Stream, amount: int) -> None:
        """Pause the stream if too much was read."""
        now = self._loop.time()
        if now >= self._ends:
            self._left, self._ends = self.WINDOW_BYTES, now + self.WINDOW_SECONDS
        self._left -= amount
        if self._left <= 0:
            if not self._paused:
                self._loop.call_at(self._ends, self._resume)
            stream.pause()
            self._paused.append(stream)

    def _resume(self) -> None:
        paused, self._paused = self._paused, []
        for stream in paused:
            stream.resume()


class Stream:
    """The stdout or stderr of a command."""

    def __init__(
        self,
        name: StreamName,
        throttle: Throttle,
        *,
        limit: int,
        secrets: list[str],
        on_output: OnOutput | None,
        on_progress: OnProgress | None,
    ) -> None:
        self.name = name
        self.tail = Tail(limit)
        self._masker = Masker(secrets)
        self._live = Live() if on_output else None
        self._on_output = on_output
        self._lines = ProgressLines() if on_progress else None
        self._on_progress = on_progress
        self._throttle = throttle
        self._delivery: asyncio.TimerHandle | None = None
        self._fd, self._other_end = os.pipe()
        os.set_blocking(self._fd, False)
        self._loop = asyncio.get_running_loop()
        self.resume()

    @property
    def other_end(self) -> int:
        """The end that the command writes to."""
        return self._other_end

    def let_go(self) -> None:
        """Close our copy of the command's end, so that the end of the stream is seen."""
        if self._other_end >= 0:
            os.close(self._other_end)
            self._other_end = -1

    def resume(self) -> None:
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._readable)

    def pause(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)

    def _readable(self) -> None:
        data = self._read()
        if data is None:
            return
        if not data:
            self._close_fd()
            return
        self._feed(self._masker.feed(data))
        self._throttle.read(self, len(data))

    def _read(self) -> bytes | None:
        try:
            return os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return None

    def _feed(self, data: bytes) -> None:
        self.tail.feed(data)
        if self._live:
            self._live.feed(data)
        if self._lines:
            self._lines.feed(data)
        if self._delivery is None and (self._live or self._lines):
            self._delivery = self._loop.call_later(DELIVERY_SECONDS, self._deliver)

    def _deliver(self, *, final: bool = False) -> None:
        self._delivery = None
        if self._live and self._on_output and (text := self._live.take(final=final)):
            _call(self._on_output, self.name, text)
        if self._lines and self._on_progress and (progress := self._lines.take()):
            _call(self._on_progress, progress)

    def finish(self) -> None:
        """Read what is left in the pipe after the command has ended, and close it even if other processes
        have it open.
        """
        left_over = 0
        while self._fd >= 0 and left_over < _MOST_LEFT_OVER and (data := self._read()):
            left_over += len(data)
            self._feed(self._masker.feed(data))
        self.close()
        self._feed(self._masker.release())
        if self._lines:
            self._lines.close()
        self._cancel_delivery()
        self._deliver(final=True)

    def close(self) -> None:
        self.let_go()
        self._close_fd()
        self._cancel_delivery()

    def _close_fd(self) -> None:
        if self._fd >= 0:
            self.pause()
            os.close(self._fd)
            self._fd = -1

    def _cancel_delivery(self) -> None:
        if self._delivery:
            self._delivery.cancel()
            self._delivery = None


def _call(listener: Callable[..., None], *arguments: object) -> None:
    """Call a listener. Its errors are logged and do not affect the command."""
    try:
        listener(*arguments)
    except Exception:  # noqa: BLE001 - logged with its traceback
        _log.exception("command output listener failed")
