"""Masking and context of log records and output."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeAlias

from posthouse.core.payload import escape
from posthouse.core.redaction.patterns import mask_text

Mask: TypeAlias = Callable[[str], str]

LOGGERS = (
    "posthouse.client", "posthouse.commands", "posthouse.embedded", "posthouse.identity", "posthouse.job",
    "posthouse.keeper", "posthouse.server", "posthouse.supervisor", "posthouse.up", "posthouse.worker",
)  # fmt: skip

_here: ContextVar[Mask] = ContextVar("posthouse_mask", default=mask_text)


def mask_with(mask: Mask) -> None:
    """Use this mask in the current task or thread."""
    _here.set(mask)


def mask_now() -> Mask:
    """Return the current mask."""
    return _here.get()


def mask_here(text: str) -> str:
    return _here.get()(text)


class Masking(logging.Filter):
    """A logging filter that masks message and traceback of a record. It never drops a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not getattr(record, "masked", False):
            _mask_record(record)
            record.masked = True
        return True


MASKING = Masking()
_formatter = logging.Formatter()


def _mask_record(record: logging.LogRecord) -> None:
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - the handler that writes the record reports an invalid format
        return
    masked = _writable(text)
    if masked != text:
        record.msg, record.args = masked, None
    if record.exc_info and record.exc_info[0] is not None:
        shown = _formatter.formatException(record.exc_info)
        record.exc_text = _writable(shown)  # formatters use this text
        if record.exc_text != shown:  # error trackers read the exception itself
            record.exc_info = _masked_exception(*record.exc_info)
    elif record.exc_text:  # an exception that another formatter has formatted
        record.exc_text = _writable(record.exc_text)


def _writable(text: str) -> str:
    """Return the text with secrets masked and without characters that a log file cannot contain."""
    return escape(mask_here(text))


def _masked_exception(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return an exception with the same name, a masked message and the same traceback, without its causes."""
    stand_in = type(kind.__name__, (Exception,), {"__module__": kind.__module__})
    return stand_in, stand_in(_writable(str(error))).with_traceback(trace), trace


def guard(names: Iterable[str] = LOGGERS) -> None:
    """Install the masking filter on these loggers, independent of the application's handlers."""
    for name in names:
        logging.getLogger(name).addFilter(MASKING)


def mask_output() -> None:
    """Mask stdout and stderr like log records."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, MaskedStream):
            setattr(sys, name, MaskedStream(stream))


class MaskedStream:
    """A text stream that masks what is written to it. Its other attributes are those of the stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(mask_here(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


Told: TypeAlias = Callable[[], Mapping[str, object]]


def _job() -> Mapping[str, object]:
    """Return the context of the current job. Secrets in it are already masked."""
    return getattr(mask_now(), "about", None) or {}


_tellers: list[Told] = [_job]


def tell(teller: Told) -> None:
    """Register a source of context for all later log lines."""
    if teller not in _tellers:
        _tellers.append(teller)


class LogContextFilter(logging.Filter):
    """A logging filter that adds the context to every record. Fields that a record already has stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        for teller in _tellers:
            for name, value in teller().items():
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True
