"""Validate what a job reports: percentages, names, texts and results of steps."""

from __future__ import annotations

import json
from typing import Any, Final

from posthouse.core.payload import encode_payload, escape
from posthouse.errors import InvalidPayload, InvalidReport, PayloadTooLarge

NAME_LIMIT = 200
TEXT_LIMIT = 1000
PENDING: Final = "pending"
IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"


def checked_percent(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:  # noqa: PLR2004
        raise InvalidReport(f"percent must be a number from 0 to 100, not {value!r}")
    return float(value)


def checked_count(what: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidReport(f"{what} must be an integer of at least 0, not {value!r}")
    return value


def checked_weight(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:  # noqa: PLR2004
        raise InvalidReport(f"weight must be a number of at least 0, not {value!r}")
    return float(value)


def checked_name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidReport(f"the name of a {what} must be a string, not {value!r}")
    if len(value) > NAME_LIMIT:
        raise InvalidReport(f"the name of a {what} has {len(value)} characters, the limit is {NAME_LIMIT}")
    return escape(value)


def clipped(value: object, limit: int = TEXT_LIMIT) -> str | None:
    """Truncate a text for display and escape characters that Postgres cannot store."""
    if value is None:
        return None
    text = escape(str(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def encode_kept(what: str, value: Any, limit: int) -> str:
    """Return the JSON text of a result that later attempts read.

    Raises InvalidReport if the result cannot be stored.
    """
    try:
        text = encode_payload({"kept": value}, limit + len('{"kept":}'))
    except PayloadTooLarge:
        raise InvalidReport(
            f"the result of {what} is larger than {limit:,} bytes; "
            "store the data elsewhere and return a reference, or raise max_result_bytes"
        ) from None
    except InvalidPayload as error:
        raise InvalidReport(f"the result of {what}: {str(error).replace('the payload', 'it')}") from None
    return text[len('{"kept":') : -1]


def decode_kept(text: str | None) -> Any:
    return None if text is None else json.loads(text)
