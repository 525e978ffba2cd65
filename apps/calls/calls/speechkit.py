"""Yandex SpeechKit, asynchronous recognition (API v2): give it the address of a file, get the id of an
operation, ask for the operation until it is done.
"""

from __future__ import annotations

from typing import Any

import httpx

from calls import settings
from calls.operation import MalformedAnswer, Operation, read_operation

MOST_PATIENCE = 600.0
_BUSY, _SERVER = 429, 500


class Refused(Exception):
    """It will not do this, however often it is asked: a wrong key, a wrong request, an unknown operation."""


class Unavailable(Exception):
    """It did not answer, or not in time, or has troubles of its own."""


class Busy(Exception):
    """It asks to be left alone for a while."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        super().__init__("there are too many requests")


def start(link: str, once: str) -> Operation:
    """Begins to recognise OGG Opus; ``once`` names the request, so that a repeated one begins nothing new."""
    asked = {
        "config": {"specification": {"languageCode": settings.language(), "audioEncoding": "OGG_OPUS"}},
        "audio": {"uri": link},
    }
    address = f"{settings.speechkit_url()}/speech/stt/v2/longRunningRecognize"
    return _ask("POST", address, json=asked, headers={"Idempotency-Key": once})


def look(operation_id: str) -> Operation:
    found = _ask("GET", f"{settings.operations_url()}/operations/{operation_id}")
    if found.id != operation_id:
        raise MalformedAnswer(f"operation {operation_id} was asked for, {found.id} was answered")
    return found


def _ask(method: str, address: str, *, headers: dict[str, str] | None = None, **body: Any) -> Operation:
    key = settings.speechkit_key()
    if not key:
        raise Refused("there is no key for SpeechKit: set CALLS_SPEECHKIT_KEY")
    signed = {"Authorization": f"Api-Key {key}", **(headers or {})}
    try:
        answer = httpx.request(method, address, headers=signed, timeout=settings.speechkit_seconds(), **body)
    except httpx.HTTPError as error:
        raise Unavailable(f"{method} {address}: {type(error).__name__} {error}".rstrip()) from None
    _refuse_errors(answer)
    return read_operation(answer.content)


def _refuse_errors(answer: httpx.Response) -> None:
    told = f"{answer.status_code}: {answer.text[:500]}"
    if answer.status_code == _BUSY:
        raise Busy(_retry_after(answer))
    if answer.status_code >= _SERVER:
        raise Unavailable(told)
    if not answer.is_success:
        raise Refused(told)


def _retry_after(answer: httpx.Response) -> float | None:
    """None also for one that is a date: then it is asked again at the usual pace."""
    text = answer.headers.get("Retry-After", "")
    return min(float(text), MOST_PATIENCE) if text.isdecimal() else None
