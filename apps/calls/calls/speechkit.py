"""Client of Yandex SpeechKit, asynchronous recognition (API v2): send the URL of a file, get an operation id,
and poll the operation until it is done.
"""

from __future__ import annotations

from typing import Any

import httpx

from calls import settings
from calls.operation import MalformedAnswer, Operation, read_operation

MOST_PATIENCE = 600.0
_BUSY, _SERVER = 429, 500


class Refused(Exception):
    """SpeechKit rejected the request: invalid key, invalid request or unknown operation."""


class Unavailable(Exception):
    """SpeechKit did not respond in time, or returned a server error."""


class Busy(Exception):
    """SpeechKit returned 429: too many requests."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        super().__init__("SpeechKit rate limit exceeded")


def start(link: str, once: str) -> Operation:
    """Start the recognition of OGG Opus. ``once``: the idempotency key of the request."""
    asked = {
        "config": {"specification": {"languageCode": settings.language(), "audioEncoding": "OGG_OPUS"}},
        "audio": {"uri": link},
    }
    address = f"{settings.speechkit_url()}/speech/stt/v2/longRunningRecognize"
    return _ask("POST", address, json=asked, headers={"Idempotency-Key": once})


def look(operation_id: str) -> Operation:
    found = _ask("GET", f"{settings.operations_url()}/operations/{operation_id}")
    if found.id != operation_id:
        raise MalformedAnswer(f"requested operation {operation_id}, but the response is about {found.id}")
    return found


def _ask(method: str, address: str, *, headers: dict[str, str] | None = None, **body: Any) -> Operation:
    key = settings.speechkit_key()
    if not key:
        raise Refused("no API key for SpeechKit: set CALLS_SPEECHKIT_KEY")
    signed = {"Authorization": f"Api-Key {key}", **(headers or {})}
    try:
        answer = httpx.request(method, address, headers=signed, timeout=settings.speechkit_seconds(), **body)
    except httpx.HTTPError as error:
        raise Unavailable(
            f"SpeechKit is unavailable: {method} {address}: {type(error).__name__} {error}".rstrip()
        ) from None
    _refuse_errors(answer)
    return read_operation(answer.content)


def _refuse_errors(answer: httpx.Response) -> None:
    told = f"SpeechKit returned {answer.status_code}: {answer.text[:500]}"
    if answer.status_code == _BUSY:
        raise Busy(_retry_after(answer))
    if answer.status_code >= _SERVER:
        raise Unavailable(told)
    if not answer.is_success:
        raise Refused(told)


def _retry_after(answer: httpx.Response) -> float | None:
    """Return the seconds of Retry-After; None without one, or for a date, which means the normal interval."""
    text = answer.headers.get("Retry-After", "")
    return min(float(text), MOST_PATIENCE) if text.isdecimal() else None
