"""The protocol between worker and job process: one JSON object per line.

JSON contains no line breaks, so a line is a message, and one split separates a batch of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from posthouse.core.outcome import Cancel, Crashed, Fail, Reported, Snooze, describe
from posthouse.core.payload import Encoded, encode_result
from posthouse.errors import InvalidPayload, InvalidResult, LeaseLost, PosthouseError
from posthouse.worker.job import Desk, Job

Message: TypeAlias = dict[str, Any]
_SAID: dict[type[Exception], str] = {Cancel: "cancel", LeaseLost: "lost", InvalidPayload: "invalid"}
"""Outcomes of which only the message is sent."""


_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def line(message: Message) -> bytes:
    return _encode(message).encode() + b"\n"


def parsed(data: bytes) -> Message:
    message: Message = json.loads(data.decode())
    return message


class Lines:
    """Assembles lines from pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[Message]:
        *whole, rest = data.split(b"\n")
        if whole and self._pieces:
            whole[0] = b"".join([*self._pieces, whole[0]])
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        return [parsed(text) for text in whole]


def pack_job(job: Job) -> Message:
    """Encode the claimed row. For columns without a JSON type, the position is recorded."""
    row = list(job.row)
    message: Message = {"row": row, "token": job.hex_token, "claimed_at": job.claimed_at}
    message["bytes"] = raw = [index for index, value in enumerate(row) if type(value) is bytes]
    message["uuids"] = ids = [index for index, value in enumerate(row) if type(value) is UUID]
    for index in raw + ids:
        row[index] = row[index].hex() if index in raw else row[index].hex
    return message


def unpack_job(message: Message, desk: Desk) -> Job:
    row = message["row"]
    for index in message["bytes"]:
        row[index] = bytes.fromhex(row[index])
    for index in message["uuids"]:
        row[index] = UUID(row[index])
    token = message["token"]
    return Job(tuple(row), UUID(token), token, message["claimed_at"], desk)


def pack_value(value: Any, limit: int, fail_on: Sequence[type[BaseException]]) -> str | Message | None:
    """Encode a result as JSON text, an outcome as an object."""
    if value is None:
        return None
    if isinstance(value, BaseException):
        return pack_ending(value, fail_on)
    try:
        return encode_result(value, limit)
    except InvalidResult as error:
        return {"as": "fail", "error": describe(error)}


def unpack_value(packed: str | Message | None) -> Encoded | BaseException | None:
    if packed is None:
        return None
    return Encoded(packed) if isinstance(packed, str) else unpack_ending(packed)


def pack_ending(ending: BaseException, fail_on: Sequence[type[BaseException]]) -> Message:
    """Encode an outcome. Classes are not sent, so decisions that depend on them are made here."""
    if isinstance(ending, Snooze):
        return {"as": "snooze", "terms": [ending.delay, ending.limit, ending.deadline]}
    for kind, name in _SAID.items():
        if isinstance(ending, kind):
            return {"as": name, "message": str(ending)}
    if isinstance(ending, (Fail, InvalidResult, *fail_on)):
        told = ending.__cause__ if isinstance(ending, Fail) else None
        return {"as": "fail", "error": describe(told or ending)}
    return {"as": "crash" if isinstance(ending, MemoryError) else "error", "error": describe(ending)}


def unpack_ending(message: Message) -> BaseException:
    match message:
        case {"as": "snooze", "terms": [delay, limit, deadline]}:
            return Snooze(delay, limit=limit, deadline=deadline)
        case {"message": said}:
            return next(kind(said) for kind, name in _SAID.items() if name == message["as"])
        case {"as": "crash", "error": error}:
            text = f"its process ran out of memory: {error['type']}: {error['message']}".rstrip(": ")
            return Crashed(text, traceback=error.get("traceback"))
    reported = Reported(message["error"])
    if message["as"] == "error":
        return reported
    failed = Fail()
    failed.__cause__ = reported
    return failed


def pack_refusal(error: Exception) -> list[str]:
    """Encode an error of the worker for the handler that called it."""
    return [getattr(error, "code", ""), str(error) or type(error).__name__]


def unpack_refusal(packed: list[str]) -> Exception:
    code, message = packed
    for kind in _errors(PosthouseError):
        if kind.code == code:
            return kind(message)
    return RuntimeError(message)


def _errors(kind: type[PosthouseError]) -> list[type[PosthouseError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _errors(child))]
