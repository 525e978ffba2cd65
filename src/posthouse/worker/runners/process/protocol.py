"""The protocol of worker and job process: messages, calls, log records, and the import paths of handlers.

A message is one JSON object per line. The JSON contains no line breaks, so one split separates several
messages.

Calls are sent through a separate message-oriented socket. The worker keeps its reading end open too. A
process reads one call, runs it, and reads the next. A call that has not started is still in the socket, and
the worker can take it back by reading it, even if the process is busy: the kernel gives each message to one
reader. No call waits behind a handler that hangs, and the call that was running when a process died is known
exactly.
"""

from __future__ import annotations

import importlib
import json
import logging
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeAlias
from uuid import UUID

from posthouse.core.outcome import Cancel, Crashed, Fail, Reported, Snooze, describe
from posthouse.core.payload import JsonText, encode_result
from posthouse.core.redaction.logs import LogContextFilter
from posthouse.errors import ConfigurationError, InvalidPayload, InvalidResult, LeaseLost, PosthouseError
from posthouse.storage.claimed import ClaimedJob
from posthouse.worker.attempt import Attempt
from posthouse.worker.handlers import JobDefinition
from posthouse.worker.services import JobServices

Message: TypeAlias = dict[str, Any]
_MESSAGE_ONLY: dict[type[Exception], str] = {Cancel: "cancel", LeaseLost: "lost", InvalidPayload: "invalid"}
"""Outcomes for which only the message is sent."""


_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def encode_message(message: Message) -> bytes:
    return _encode(message).encode() + b"\n"


def decode_message(data: bytes) -> Message:
    message: Message = json.loads(data.decode())
    return message


class MessageReader:
    """A parser of messages that arrive in pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[Message]:
        *whole, rest = data.split(b"\n")
        if whole and self._pieces:
            whole[0] = b"".join([*self._pieces, whole[0]])
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        return [decode_message(text) for text in whole]


def pack_job(attempt: Attempt) -> Message:
    """Encode the claimed row. The positions of values that JSON cannot represent are sent with it."""
    row: list[Any] = list(attempt.row)
    message: Message = {"row": row, "token": attempt.hex_token, "claimed_at": attempt.claimed_at}
    message["bytes"] = raw = [index for index, value in enumerate(row) if type(value) is bytes]
    message["uuids"] = ids = [index for index, value in enumerate(row) if type(value) is UUID]
    for index in raw + ids:
        row[index] = row[index].hex() if index in raw else row[index].hex
    return message


def unpack_job(message: Message, services: JobServices) -> Attempt:
    row = message["row"]
    for index in message["bytes"]:
        row[index] = bytes.fromhex(row[index])
    for index in message["uuids"]:
        row[index] = UUID(row[index])
    token = message["token"]
    return Attempt(ClaimedJob(*row), UUID(token), token, message["claimed_at"], services)


def pack_value(value: Any, limit: int, fail_on: Sequence[type[BaseException]]) -> str | Message | None:
    """Encode a result as JSON text, an outcome as an object."""
    if value is None:
        return None
    if isinstance(value, BaseException):
        return pack_outcome(value, fail_on)
    try:
        return encode_result(value, limit)
    except InvalidResult as error:
        return {"as": "fail", "error": describe(error)}


def unpack_value(packed: str | Message | None) -> JsonText | BaseException | None:
    if packed is None:
        return None
    return JsonText(packed) if isinstance(packed, str) else unpack_outcome(packed)


def pack_outcome(outcome: BaseException, fail_on: Sequence[type[BaseException]]) -> Message:
    """Encode an outcome. Classes are not sent, so decisions that depend on the class are made here."""
    if isinstance(outcome, Snooze):
        return {"as": "snooze", "terms": [outcome.delay, outcome.limit, outcome.deadline]}
    for kind, name in _MESSAGE_ONLY.items():
        if isinstance(outcome, kind):
            return {"as": name, "message": str(outcome)}
    if isinstance(outcome, (Fail, InvalidResult, *fail_on)):
        error = outcome.__cause__ if isinstance(outcome, Fail) else None
        return {"as": "fail", "error": describe(error or outcome)}
    return {"as": "crash" if isinstance(outcome, MemoryError) else "error", "error": describe(outcome)}


def unpack_outcome(message: Message) -> BaseException:
    match message:
        case {"as": "snooze", "terms": [delay, limit, deadline]}:
            return Snooze(delay, limit=limit, deadline=deadline)
        case {"message": said}:
            return next(kind(said) for kind, name in _MESSAGE_ONLY.items() if name == message["as"])
        case {"as": "crash", "error": error}:
            text = f"its process ran out of memory: {error['type']}: {error['message']}".rstrip(": ")
            return Crashed(text, traceback=error.get("traceback"))
    reported = Reported(message["error"])
    if message["as"] == "error":
        return reported
    failed = Fail()
    failed.__cause__ = reported
    return failed


def pack_error(error: Exception) -> list[str]:
    """Encode an error of the worker for the handler that called it."""
    return [getattr(error, "code", ""), str(error) or type(error).__name__]


def unpack_error(packed: list[str]) -> Exception:
    code, message = packed
    for kind in _errors(PosthouseError):
        if kind.code == code:
            return kind(message)
    return RuntimeError(message)


def _errors(kind: type[PosthouseError]) -> list[type[PosthouseError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _errors(child))]


MAX_INLINE_BYTES = 32_768
"""Larger calls are sent over the connection for messages, and only their number through the call socket."""
SHUTDOWN = b"shutdown"


def _pair() -> tuple[socket.socket, socket.socket]:
    with suppress(OSError):  # not available on macOS
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


class CallQueue:
    """The worker's end of the call socket."""

    def __init__(self) -> None:
        self._writing, self.reading = _pair()
        self._writing.setblocking(False)

    def put(self, data: bytes) -> bool:
        """Send a call. Return False if the socket is full."""
        try:
            self._writing.send(data)
        except BlockingIOError:
            return False
        except OSError:  # the process has just died
            return False
        return True

    def reclaim(self) -> list[int]:
        """Take back the calls that have not started, and return their numbers."""
        taken: list[int] = []
        with suppress(BlockingIOError):
            while data := self.reading.recv(MAX_INLINE_BYTES * 2, socket.MSG_DONTWAIT):
                taken.append(decode_message(data)["run"])
        return taken

    def close(self) -> None:
        self._writing.close()
        self.reading.close()


def next_call(reading: socket.socket) -> Message | None:
    """Wait for the next call in the process, and return it, or None at the end."""
    data = reading.recv(MAX_INLINE_BYTES * 2)
    return None if data in {b"", SHUTDOWN} else decode_message(data)


def encode_inline(call: Message) -> bytes | None:
    data = encode_message(call)
    return data if len(data) <= MAX_INLINE_BYTES else None


_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "masked"}
"""Attributes of every log record. Others were passed as ``extra``, such as the job's id."""
_CARRIED = ("name", "levelno", "levelname", "created", "pathname", "filename", "module", "lineno", "funcName")


class _ForwardHandler(logging.Handler):
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
    """Send log records to the worker.

    Must be called before the application is imported, so that its ``basicConfig`` adds no handler.
    """
    root = logging.getLogger()
    forward = _ForwardHandler(send)
    forward.addFilter(LogContextFilter())
    root.addHandler(forward)
    root.setLevel(level)


def pack_record(record: logging.LogRecord) -> dict[str, Any]:
    packed = {name: getattr(record, name) for name in _CARRIED}
    packed["msg"] = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        packed["exc_text"] = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
    elif record.exc_text:
        packed["exc_text"] = record.exc_text
    packed.update({name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS})
    return packed


def replay_record(packed: dict[str, Any], pid: int) -> None:
    """Log a forwarded record in the worker."""
    record = logging.makeLogRecord({**packed, "args": None, "process": pid})
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


def import_path_of(definition: JobDefinition) -> str:
    """Return the import path. Raises ConfigurationError if a process could not import it."""
    handler = definition.handler
    module, name = handler.__module__, handler.__qualname__
    if module == "__main__":
        raise _not_importable(
            definition, "it is defined in the main script; move it to a module and import it"
        )
    if "<locals>" in name:
        raise _not_importable(definition, "it is defined inside a function; define it in a module")
    loaded = sys.modules.get(module)
    found = None if loaded is None else _definition(loaded, name)
    if found is None or found.arguments is not definition.arguments:  # aliases share them
        raise _not_importable(
            definition, f"{name} in module {module} is a different object; decorate it there with @app.job"
        )
    return f"{module}:{name}"


def import_definition(path: str) -> JobDefinition:
    """Import the definition at this path."""
    module, _, name = path.partition(":")
    definition = _definition(importlib.import_module(module), name)
    if definition is None:
        raise ConfigurationError(f"{path} is not a job when a job process imports it")
    return definition


def _definition(module: ModuleType, name: str) -> JobDefinition | None:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    definition = getattr(found, "definition", None)
    return definition if isinstance(definition, JobDefinition) else None


def _not_importable(definition: JobDefinition, why: str) -> ConfigurationError:
    return ConfigurationError(f'{definition.kind}: runner="process" must import the handler, but {why}')
