"""``job.log``: a logger whose lines are also stored with the job."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

_log = logging.getLogger("posthouse.job")


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """A logger. ``keep`` receives (level, text) of lines from ``threshold`` up, even if the application does
    not show them.
    """

    def __init__(self, about: Mapping[str, object], threshold: int, keep: Callable[[str, str], None]) -> None:
        super().__init__(_log, about)
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
