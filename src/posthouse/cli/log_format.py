"""Log lines: readable on a terminal, JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import IO, Any

from posthouse.cli.guarding import UsageError
from posthouse.core.redaction import MASKING, mask_output
from posthouse.core.redaction.logs import LogContextFilter

JOB_FIELDS = ("job_id", "kind", "tenant_id", "attempt")
PLACE_FIELDS = ("worker_id", "request_id", "trace_id", "span_id")
REQUEST_FIELDS = ("method", "route", "status", "milliseconds", "principal")
FIELDS = (
    *JOB_FIELDS,
    *PLACE_FIELDS,
    *REQUEST_FIELDS,
    "queues",
    "kinds",
    "concurrency",
    "event",
    "outcome",
)
_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def start_logging(*, as_json: bool | None, level: str, stream: IO[str] | None = None) -> WorkerField:
    """Send log records to ``stream`` (default: stdout); return the filter that adds the worker's id."""
    target = stream or sys.stdout
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise UsageError(f"invalid --log-level {level!r}: use debug, info, warning or error")
    handler = logging.StreamHandler(target)
    wants_json = not target.isatty() if as_json is None else as_json
    handler.setFormatter(JsonLines() if wants_json else HumanLines(colour=target.isatty()))
    worker = WorkerField(handler)
    handler.addFilter(worker)
    handler.addFilter(LogContextFilter())
    handler.addFilter(MASKING)
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("posthouse").setLevel(number)
    mask_output()
    return worker


class WorkerField(logging.Filter):
    """Adds the worker's id to every record of a handler, once there is a worker."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self.handler = handler
        self.worker_id: str | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if self.worker_id is not None and not hasattr(record, "worker_id"):
            record.worker_id = self.worker_id
        return True


class HideKinds(logging.Filter):
    """Drops the log lines of some kinds of job, and alerts about them; both are still stored."""

    def __init__(self, kinds: Iterable[str]) -> None:
        super().__init__()
        self._kinds = frozenset(kinds)

    def filter(self, record: logging.LogRecord) -> bool:
        subject, *_ = getattr(record, "alert_subject", "").split(" ")  # a kind, or a kind and a cause
        return getattr(record, "kind", None) not in self._kinds and subject not in self._kinds


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_text:  # set by the masking filter
            line["exception"] = record.exc_text
        return json.dumps(line, default=str, ensure_ascii=False)


class HumanLines(logging.Formatter):
    """Time, level unless it is info, message, and the job or request that the line is about."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        facts = " ".join(
            str(getattr(record, name)) for name in ("kind", "job_id", "request_id") if hasattr(record, name)
        )
        text = (
            f"{self._paint(time, _DIM)} "
            f"{self._paint(level + record.getMessage(), _COLOURS.get(record.levelname, ''))}"
            f"{self._paint(f'  [{facts}]', _DIM) if facts else ''}"
        )
        return f"{text}\n{record.exc_text}" if record.exc_text else text

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colour and colour else text
