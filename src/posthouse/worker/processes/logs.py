"""Forward the log records of a job process to the worker's log."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

from posthouse.core.outcome import Cancel
from posthouse.core.surroundings import Surroundings
from posthouse.worker.processes.wire import Message

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "masked"}
"""Attributes of every record; others were passed as ``extra``, such as the job's ids."""
_CARRIED = ("name", "levelno", "levelname", "created", "pathname", "filename", "module", "lineno", "funcName")


class _Forward(logging.Handler):
    def __init__(self, send: Callable[[Message], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._send({"log": pack_record(record)})
        except Cancel:  # the handler is canceled while it logs
            raise
        except Exception:  # noqa: BLE001 - as in logging, a record never raises in its caller
            self.handleError(record)


def forward_logs(level: int, send: Callable[[Message], None]) -> None:
    """Install the handler before the application is imported, so that its basicConfig adds none."""
    root = logging.getLogger()
    forward = _Forward(send)
    forward.addFilter(Surroundings())
    root.addHandler(forward)
    root.setLevel(level)


def pack_record(record: logging.LogRecord) -> dict[str, Any]:
    packed = {name: getattr(record, name) for name in _CARRIED}
    packed["msg"] = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        packed["exc_text"] = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
    elif record.exc_text:
        packed["exc_text"] = record.exc_text
    packed.update({name: value for name, value in vars(record).items() if name not in _OWN})
    return packed


def log_here(packed: dict[str, Any], pid: int) -> None:
    """Log a forwarded record in the worker."""
    record = logging.makeLogRecord({**packed, "args": None, "process": pid})
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
