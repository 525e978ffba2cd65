"""Yandex SpeechKit, asynchronous recognition (API v2): send the URL of a file, get an operation id, and poll
the operation until it is done. The local recognizer has operations of the same format.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

import httpx
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from calls import settings
from calls.transcript import Phrase, Transcript, Word

MAX_RETRY_AFTER = 600.0
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class RequestRejected(Exception):
    """SpeechKit rejected the request: invalid key, invalid request or unknown operation."""


class ServiceUnavailable(Exception):
    """SpeechKit did not respond in time, or returned a server error."""


class RateLimited(Exception):
    """SpeechKit returned 429: too many requests."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        super().__init__("SpeechKit rate limit exceeded")


class MalformedResponse(Exception):
    """The response does not follow the protocol."""


class OperationFailed(Exception):
    """The recognition failed."""


def _seconds(text: object) -> float:
    found = _SECONDS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"invalid duration {text!r}; expected a value like 1.5s")
    return float(found[1])


Seconds = Annotated[float, BeforeValidator(_seconds)]


class SpokenWord(BaseModel):
    word: str
    startTime: Seconds  # noqa: N815 - the cloud's names
    endTime: Seconds  # noqa: N815
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None


class Alternative(BaseModel):
    text: str
    words: list[SpokenWord]


class Chunk(BaseModel):
    alternatives: list[Alternative]
    channelTag: str = "1"  # noqa: N815


class Response(BaseModel):
    chunks: list[Chunk] = []
    unreadChannels: list[str] = []  # noqa: N815 - of the local recognizer only


class OperationError(BaseModel):
    code: int = 0
    message: str = ""


class Operation(BaseModel):
    id: str
    done: bool = False
    response: Response | None = None
    error: OperationError | None = None

    @model_validator(mode="after")
    def _require_result(self) -> Self:
        if self.done and self.response is None and self.error is None:
            raise ValueError("the operation is done but has neither a response nor an error")
        return self

    def transcript(self) -> Transcript:
        """Return the most likely text of each chunk. Raises OperationFailed without a response."""
        if self.response is None:
            error = self.error or OperationError(message="the operation is not done")
            raise OperationFailed(f"operation {self.id} failed with code {error.code}: {error.message}")
        phrases = [_phrase(chunk) for chunk in self.response.chunks if chunk.alternatives]
        recognized = [phrase for phrase in phrases if phrase.words]
        ordered = sorted(recognized, key=lambda phrase: (phrase.words[0].start, phrase.speaker))
        unread = self.response.unreadChannels
        return Transcript(language=settings.language(), phrases=ordered, unread_speakers=unread)


def read_operation(response: bytes) -> Operation:
    try:
        return Operation.model_validate_json(response)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(item) for item in first["loc"]) or "the response"
        raise MalformedResponse(
            f"invalid response: expected an operation; {location}: {first['msg']}"
        ) from None


def _phrase(chunk: Chunk) -> Phrase:
    best = chunk.alternatives[0]
    words = [
        Word(text=word.word, start=word.startTime, end=word.endTime, confidence=word.confidence)
        for word in best.words
    ]
    return Phrase(speaker=chunk.channelTag, text=best.text, words=words)


def start(audio_url: str, idempotency_key: str) -> Operation:
    """Start the recognition of OGG Opus. Requests with the same key start one operation."""
    body = {
        "config": {"specification": {"languageCode": settings.language(), "audioEncoding": "OGG_OPUS"}},
        "audio": {"uri": audio_url},
    }
    url = f"{settings.speechkit_url()}/speech/stt/v2/longRunningRecognize"
    return _request("POST", url, json=body, headers={"Idempotency-Key": idempotency_key})


def poll(operation_id: str) -> Operation:
    found = _request("GET", f"{settings.operations_url()}/operations/{operation_id}")
    if found.id != operation_id:
        raise MalformedResponse(f"requested operation {operation_id}, but the response is about {found.id}")
    return found


def _request(method: str, url: str, *, headers: dict[str, str] | None = None, **body: Any) -> Operation:
    key = settings.speechkit_key()
    if not key:
        raise RequestRejected("no API key for SpeechKit: set CALLS_SPEECHKIT_KEY")
    all_headers = {"Authorization": f"Api-Key {key}", **(headers or {})}
    try:
        response = httpx.request(
            method, url, headers=all_headers, timeout=settings.speechkit_timeout(), **body
        )
    except httpx.HTTPError as error:
        raise ServiceUnavailable(
            f"SpeechKit is unavailable: {method} {url}: {type(error).__name__} {error}".rstrip()
        ) from None
    _raise_for_status(response)
    return read_operation(response.content)


def _raise_for_status(response: httpx.Response) -> None:
    message = f"SpeechKit returned {response.status_code}: {response.text[:500]}"
    if response.status_code == _TOO_MANY_REQUESTS:
        raise RateLimited(_retry_after(response))
    if response.status_code >= _SERVER_ERROR:
        raise ServiceUnavailable(message)
    if not response.is_success:
        raise RequestRejected(message)


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of Retry-After; None without one, or for a date, which means the normal interval."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), MAX_RETRY_AFTER) if text.isdecimal() else None
