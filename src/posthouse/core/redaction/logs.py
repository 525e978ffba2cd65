"""Masks what is logged and printed, with the eyes of the job that runs where it happens."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, TypeAlias

from posthouse.core.redaction.patterns import mask_text

Mask: TypeAlias = Callable[[str], str]

LOGGERS = (
    "posthouse.client", "posthouse.commands", "posthouse.identity", "posthouse.job", "posthouse.keeper",
    "posthouse.server", "posthouse.up", "posthouse.worker",
)  # fmt: skip

_here: ContextVar[Mask] = ContextVar("posthouse_mask", default=mask_text)


def mask_with(mask: Mask) -> None:
    """From here on, in this task or thread, texts are masked like this."""
    _here.set(mask)


def mask_now() -> Mask:
    """The mask that is in use here."""
    return _here.get()


def mask_here(text: str) -> str:
    return _here.get()(text)


class Masking(logging.Filter):
    """Masks a record's message and traceback. It never drops one."""

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
    except Exception:  # noqa: BLE001 - a wrong format is reported by whoever writes the record
        return
    masked = mask_here(text)
    if masked != text:
        record.msg, record.args = masked, None
    if record.exc_info and record.exc_info[0] is not None:
        # As text from here on: whoever formats the exception itself would show what is masked here.
        record.exc_text = mask_here(_formatter.formatException(record.exc_info))
        record.exc_info = None
    elif record.exc_text:  # made elsewhere
        record.exc_text = mask_here(record.exc_text)


def guard(names: Iterable[str] = LOGGERS) -> None:
    """Lets nothing through these loggers that is not masked, whatever handlers an application has."""
    for name in names:
        logging.getLogger(name).addFilter(MASKING)


def mask_output() -> None:
    """What is printed goes the way of the log, and is masked like it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, MaskedStream):
            setattr(sys, name, MaskedStream(stream))


class MaskedStream:
    """A text stream that masks what is written to it. Everything else is the stream's own."""

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
