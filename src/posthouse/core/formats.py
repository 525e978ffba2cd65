"""The formats of JSON Schema that are checked here instead of by the schema library.

The library knows ``uuid`` and ``duration`` only in newer drafts, and its strict reading of ``date-time``,
``time`` and ``duration`` refuses values that handlers accept and that Pydantic itself writes: times without
an offset, fractions of a second, negative durations. The library checks all other formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, time

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DURATION = re.compile(
    r"[+-]?P(?=[\dT])(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.ASCII
)


def _is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def _is_date_time(value: str) -> bool:
    return _DATE_TIME.fullmatch(value) is not None and _is_read_by(datetime.fromisoformat, value)


def _is_time(value: str) -> bool:
    return _TIME.fullmatch(value) is not None and _is_read_by(time.fromisoformat, value)


def _is_duration(value: str) -> bool:
    return _DURATION.fullmatch(value) is not None


def _is_read_by(reader: Callable[[str], object], value: str) -> bool:
    try:
        reader(value)
    except ValueError:
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "uuid": _is_uuid,
    "date-time": _is_date_time,
    "time": _is_time,
    "duration": _is_duration,
}
