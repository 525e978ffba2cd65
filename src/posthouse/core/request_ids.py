"""The id of the HTTP request that code runs for, on every line that is logged meanwhile."""

from __future__ import annotations

import logging
from contextvars import ContextVar

request_id: ContextVar[str | None] = ContextVar("posthouse_request_id", default=None)


class RequestIds(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        current = request_id.get()
        if current is not None and not hasattr(record, "request_id"):
            record.request_id = current
        return True
