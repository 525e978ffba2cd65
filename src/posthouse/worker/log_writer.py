"""``job.job.log``: a logger whose lines are also stored with the job."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from posthouse.core.payload import escape
from posthouse.storage.attempts import LogEntry
from posthouse.waiting import Backoff
from posthouse.worker.backend import REJECTED, UNREACHABLE, AttemptStore

if TYPE_CHECKING:
    from posthouse.worker.attempt import Attempt

_log = logging.getLogger("posthouse.worker")
_job_log = logging.getLogger("posthouse.job")

INTERVAL = 0.25
FLUSH_TIMEOUT_SECONDS = 5.0
BURST_BYTES = 65_536
LINE_LIMIT = 16_384
MASK_MARGIN_CHARS = 4_096
"""Extra characters kept of a truncated line until it is masked, so that the cut cannot split a secret."""
LINE_OVERHEAD_BYTES = 40  # of a line in addition to its text


class BufferedLine(NamedTuple):
    at: float  # on the monotonic clock
    stream: str
    level: str | None
    text: str

    @property
    def size(self) -> int:
        return len(self.text) + LINE_OVERHEAD_BYTES


class LogBuffer:
    """The unwritten log lines of one job. If there are too many, only the first and the last are kept."""

    def __init__(self, share: int) -> None:
        self._left = share
        self._first: list[BufferedLine] = []
        self._first_bytes = 0
        self._last: deque[BufferedLine] = deque()
        self._last_bytes = 0
        self._dropped = 0
        self._partial: dict[str, str] = {}
        self.final = False

    def add(self, said: BufferedLine) -> None:
        if self._first_bytes + said.size <= min(BURST_BYTES, self._left) and not self._last:
            self._first.append(said)
            self._first_bytes += said.size
            return
        self._last.append(said)
        self._last_bytes += said.size
        while self._last_bytes > BURST_BYTES:
            self._last_bytes -= self._last.popleft().size
            self._dropped += 1

    def whole_lines(self, stream: str, text: str) -> list[str]:
        """Return complete lines. Output comes in pieces, so an incomplete line waits for its end."""
        *whole, rest = (self._partial.pop(stream, "") + text).split("\n")
        if rest:
            self._partial[stream] = _normalize_line(rest)
        return whole

    def take(self) -> list[BufferedLine]:
        if self.final:
            for stream, text in self._partial.items():
                self.add(BufferedLine(time.monotonic(), stream, None, text))
            self._partial.clear()
        if self._left <= 0 and not self.final:
            return []
        taken = [*self._first, *self._dropped_notice(), *self._last]
        self._left -= self._first_bytes + self._last_bytes
        if self._left <= 0 and not self.final:
            taken.append(
                _notice("this attempt has reached its log limit: from here on only the last lines are kept")
            )
        self._first, self._first_bytes = [], 0
        self._last, self._last_bytes, self._dropped = deque(), 0, 0
        return taken

    def _dropped_notice(self) -> list[BufferedLine]:
        return [_notice(f"{self._dropped:,} lines omitted")] if self._dropped else []


class LogWriter:
    """The background writer of job logs."""

    def __init__(self, store: AttemptStore, share: int, redact: Callable[[Attempt, str], str]) -> None:
        self._store = store
        self._share = share
        self._redact = redact
        self._lock = threading.Lock()
        self._lines: dict[Attempt, LogBuffer] = {}
        self._unsent: list[tuple[Attempt, BufferedLine]] = []
        self._flush_waiters: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._flush_now = asyncio.Event()

    def emit(self, attempt: Attempt, stream: str, level: str | None, text: str) -> None:
        """Add lines from any thread, without waiting."""
        if attempt.is_finished or attempt.is_lease_lost:
            return
        with self._lock:
            lines = self._lines.get(attempt)
            if lines is None:
                lines = self._lines[attempt] = LogBuffer(self._share)
            whole = text.split("\n") if stream == "log" else lines.whole_lines(stream, text)
            for line in whole:
                lines.add(BufferedLine(time.monotonic(), stream, level, _normalize_line(line)))
        attempt.has_reports = True
        if not self._wakeup.is_set():
            self._loop.call_soon_threadsafe(self._wakeup.set)

    async def flush(self, attempt: Attempt) -> None:
        """Write the lines of a job that is about to finish."""
        with self._lock:
            lines = self._lines.get(attempt)
            if lines is None:
                return
            lines.final = True
        written: asyncio.Future[None] = self._loop.create_future()
        self._flush_waiters.append(written)
        self._wakeup.set()
        self._flush_now.set()
        await asyncio.wait([written], timeout=FLUSH_TIMEOUT_SECONDS)

    async def run(self) -> None:
        """Write until canceled. Errors here never affect a job."""
        backoff = Backoff()
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            self._flush_now.clear()
            waiters, self._flush_waiters = self._flush_waiters, []
            try:
                await self._flush()
                backoff.reset()
            except UNREACHABLE:
                self._flush_waiters = waiters + self._flush_waiters
                self._wakeup.set()
                await backoff.sleep()
                continue
            for written in waiters:
                if not written.done():
                    written.set_result(None)
            await self._pause()

    async def _pause(self) -> None:
        timer = self._loop.call_later(INTERVAL, self._flush_now.set)
        await self._flush_now.wait()
        timer.cancel()

    async def _flush(self) -> None:
        if not self._unsent:
            self._unsent = self._take_all()
        if not self._unsent:
            return
        now = time.monotonic()
        lines = [
            LogEntry(
                attempt.hex_id,
                attempt.hex_token,
                now - said.at,
                said.stream,
                said.level,
                self._masked_text(attempt, said.text),
            )
            for attempt, said in self._unsent
        ]
        try:
            await self._store.write_log(lines)
        except UNREACHABLE:
            raise
        except REJECTED as error:
            _log.error("log lines cannot be stored lines=%d: %s", len(lines), error)
        self._unsent = []
        with self._lock:
            more = any(lines.final for lines in self._lines.values())
        if more:
            await self._flush()

    def _masked_text(self, attempt: Attempt, text: str) -> str:
        """Return a line as it is stored. Masked only now, because most lines of a flood are never stored."""
        try:
            masked = self._redact(attempt, text)
        except Exception as error:  # noqa: BLE001 - a line that cannot be masked must not be stored
            return f"[this line could not be masked: {type(error).__name__}]"
        if len(text) > LINE_LIMIT:
            masked = masked[: max(0, len(masked) - MASK_MARGIN_CHARS)][:LINE_LIMIT] + " …"
        return escape(masked)

    def _take_all(self) -> list[tuple[Attempt, BufferedLine]]:
        with self._lock:
            taken = [(attempt, said) for attempt, lines in self._lines.items() for said in lines.take()]
            for attempt in [
                attempt
                for attempt, lines in self._lines.items()
                if lines.final or attempt.is_finished or attempt.is_lease_lost
            ]:
                del self._lines[attempt]
        return taken


def _normalize_line(line: str) -> str:
    """Return the text of a line after its last carriage return, truncated if it is long."""
    return line.rstrip("\r").rpartition("\r")[2][: LINE_LIMIT + MASK_MARGIN_CHARS]


def _notice(text: str) -> BufferedLine:
    return BufferedLine(time.monotonic(), "log", "warning", f"[{text}]")


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that also passes its lines to ``keep``.

    ``keep`` receives the level and the text of each line from ``threshold`` up, even if the application's log
    level hides the line.
    """

    def __init__(self, about: Mapping[str, object], threshold: int, keep: Callable[[str, str], None]) -> None:
        super().__init__(_job_log, about)
        self._threshold = threshold
        self._keep = keep

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this frame is not the caller
        super().log(level, msg, *args, **kwargs)
        if level >= self._threshold:
            self._keep(logging.getLevelName(level).lower(), _text(msg, args, kwargs.get("exc_info")))


def _text(msg: object, args: tuple[object, ...], exc_info: Any) -> str:
    try:
        text = logging.LogRecord("", 0, "", 0, msg, args, None).getMessage()
    except Exception as error:  # noqa: BLE001 - an invalid format must not raise, as in logging
        text = f"{msg!r} {args!r} ({type(error).__name__}: {error})"
    if not exc_info:
        return text
    if isinstance(exc_info, BaseException):
        return f"{text}\n{''.join(traceback.format_exception(exc_info)).rstrip()}"
    if isinstance(exc_info, tuple):
        return f"{text}\n{''.join(traceback.format_exception(*exc_info)).rstrip()}"
    return f"{text}\n{traceback.format_exc().rstrip()}"
