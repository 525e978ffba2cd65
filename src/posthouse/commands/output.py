"""Process the output of a command: read it from pipes, mask it, store its tail, and find progress in it."""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from posthouse.core.payload import escape

MASK = b"[secret]"
_MIN_SECRET_CHARS = 4  # shorter secrets would match by chance


class Masker:
    """A filter that masks secrets, even in pieces: data that may be the start of a secret is held back."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {secret.encode() for secret in secrets if len(secret) >= _MIN_SECRET_CHARS}
        self._secrets = sorted(found, key=len, reverse=True)  # a secret may be the start of another one
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        data = self._held + data
        starts = self._possible_starts(data)
        done, written = 0, []
        for match in self._pattern.finditer(data):
            if any(done <= start <= match.start() for start in starts):
                break  # the match may be part of a longer secret
            written += [data[done : match.start()], MASK]
            done = match.end()
        hold = min((start for start in starts if start >= done), default=len(data))
        self._held = data[hold:]
        return b"".join((*written, data[done:hold]))

    def flush(self) -> bytes:
        """Return the bytes that were held back."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK, held) if self._secrets else held

    def _possible_starts(self, data: bytes) -> set[int]:
        """Return the positions where a secret may begin whose rest has not arrived yet."""
        return {
            len(data) - length
            for secret in self._secrets
            for length in range(1, min(len(secret), len(data) + 1))
            if data.endswith(secret[:length])
        }


LIVE_LIMIT = 64 * 1024


class OutputTail:
    """The last ``limit`` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        self._data += data[-self._limit :] if self._limit else b""
        if len(self._data) > 2 * self._limit:
            self._trim()

    def _trim(self) -> None:
        del self._data[: max(0, len(self._data) - self._limit)]

    @property
    def dropped(self) -> int:
        """The number of bytes before the tail."""
        return max(0, self._total - self._limit)

    def bytes(self) -> bytes:
        self._trim()
        return bytes(self._data)

    def text(self) -> str:
        return decoded(_whole_start(self.bytes()) if self.dropped else self.bytes())


def decoded(data: bytes) -> str:
    """Decode arbitrary bytes to text that can be stored and displayed."""
    return escape(data.decode("utf-8", "replace"))


def _whole_start(data: bytes) -> bytes:
    """Remove the incomplete character at the start of the data."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        cut += 1
    return data[cut:]


class LiveOutput:
    """The bytes since the last delivery. If there are too many, only the end is delivered."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = OutputTail(LIVE_LIMIT)

    def feed(self, data: bytes) -> None:
        self._tail.feed(data)

    def take(self, *, final: bool = False) -> str:
        """Return the text since the last call, in whole characters."""
        tail, self._tail = self._tail, OutputTail(LIVE_LIMIT)
        if tail.dropped:
            notice = f"{self._decoder.decode(b'', True)}\n[{tail.dropped:,} bytes omitted]\n"
            self._decoder.reset()
            return notice + escape(self._decoder.decode(_whole_start(tail.bytes()), final))
        return escape(self._decoder.decode(tail.bytes(), final))


PREFIX = b"posthouse: "
_MAX_LINE_BYTES = 8192
_MAX_PERCENT = 100


@dataclass(frozen=True, slots=True)
class CommandProgress:
    percent: float | None = None
    step: str | None = None
    message: str | None = None


def parse_progress(line: bytes) -> CommandProgress | None:
    """Parse a line. Return None for other lines and for invalid progress, which count as output."""
    if not line.startswith(PREFIX) or len(line) > _MAX_LINE_BYTES:
        return None
    try:
        data = json.loads(line[len(PREFIX) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data or data.keys() - {"percent", "step", "message"}:
        return None
    percent, step, message = (data.get(name) for name in ("percent", "step", "message"))
    if _is_percent(percent) and _is_text(step) and _is_text(message):
        return CommandProgress(percent, step, message)
    return None


def _is_percent(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_PERCENT


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


class ProgressLines:
    """A parser that finds the newest progress in a stream, at almost no cost for other output."""

    def __init__(self) -> None:
        self._line = b""
        self._newest: CommandProgress | None = None

    def feed(self, data: bytes) -> None:
        data = self._line + data
        end = data.rfind(b"\n") + 1
        if end and PREFIX in data:
            for line in data[:end].split(b"\n"):
                self._newest = parse_progress(line) or self._newest
        self._line = data[end : end + _MAX_LINE_BYTES + 1]  # a longer line cannot become valid

    def take(self) -> CommandProgress | None:
        newest, self._newest = self._newest, None
        return newest

    def close(self) -> None:
        """Parse the last line, which may lack a newline."""
        self.feed(b"\n")


_log = logging.getLogger("posthouse.commands")

StreamName: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = Callable[[StreamName, str], None]
OnProgress: TypeAlias = Callable[[CommandProgress], None]

DELIVERY_SECONDS = 0.1
_CHUNK = 64 * 1024  # the capacity of a pipe
_MAX_REMAINING = 1024 * 1024


class Throttle:
    """A limit on the rate at which the output of all commands is read.

    It is 1 MB per 10 ms, which takes a sixth of the loop's time. A flood of output is read at that rate, and
    the loop can run other tasks meanwhile.
    """

    WINDOW_SECONDS = 0.01
    WINDOW_BYTES = 1024 * 1024

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = self.WINDOW_BYTES
        self._ends = 0.0
        self._paused: list[OutputStream] = []

    def read(self, stream: OutputStream, amount: int) -> None:
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


class OutputStream:
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
        self.tail = OutputTail(limit)
        self._masker = Masker(secrets)
        self._live = LiveOutput() if on_output else None
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
    def descriptor(self) -> int:
        """The end that the command writes to."""
        return self._other_end

    def release(self) -> None:
        """Close this process's copy of the command's end, so that the end of the stream is detected."""
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
        """Read the rest of the pipe after the command has ended.

        Then close the pipe, even if other processes have it open.
        """
        left_over = 0
        while self._fd >= 0 and left_over < _MAX_REMAINING and (data := self._read()):
            left_over += len(data)
            self._feed(self._masker.feed(data))
        self.close()
        self._feed(self._masker.flush())
        if self._lines:
            self._lines.close()
        self._cancel_delivery()
        self._deliver(final=True)

    def close(self) -> None:
        self.release()
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
