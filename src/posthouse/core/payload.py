"""Payloads and results as JSON that Postgres will take.

A payload that it would not take is the caller's error and is refused. A result is the end of work that was
done: what cannot be stored as it is, is stored escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from posthouse.errors import InvalidPayload, PayloadTooLarge

MAX_DEPTH = 200
MAX_DIGITS = 4300  # Python, by default, reads no longer integer
_NUL = b"\\u0000"
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LONG_INTEGER = re.compile(rb"\d{%d}" % (MAX_DIGITS + 1))


class Encoded(str):
    """A result that is JSON text already, made by encode_result in another process."""

    __slots__ = ()


def encode_payload(value: Any, limit: int) -> str:
    """JSON text of a payload, at most ``limit`` bytes of it."""
    return payload_bytes(value, limit).decode()


def payload_bytes(value: Any, limit: int) -> bytes:
    if not isinstance(value, dict):
        if not isinstance(value, Mapping):
            raise InvalidPayload(f"a payload is a JSON object, not {type(value).__name__}")
        value = dict(value)
    data = _encode(value)
    if len(data) > limit:
        raise PayloadTooLarge(
            f"the payload has {len(data):,} bytes, the limit is {limit:,}; "
            "store the data elsewhere and pass a reference, or raise max_payload_bytes"
        )
    if _NUL in data and contains_nul(data):
        raise InvalidPayload("the payload contains a NUL character, which Postgres cannot store")
    return data


def encode_result(value: Any, limit: int) -> str:
    """JSON text of a result. What Postgres or JSON cannot hold is escaped or replaced by a note."""
    if isinstance(value, Encoded):
        return value
    try:
        data = to_json(value, inf_nan_mode="strings", fallback=repr)
        if len(data) <= limit and not (_NUL in data and contains_nul(data)):
            _check_depth(data)
            _check_digits(data)
            return data.decode()
        value = json.loads(data)  # models, dates and the like have become texts
    except (ValueError, RecursionError, InvalidPayload, PydanticSerializationError):
        pass
    return _encode_awkward(value, limit)


def _encode(value: Any) -> bytes:
    try:
        data = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise InvalidPayload(_explain(error)) from None
    except (ValueError, RecursionError):
        raise InvalidPayload(_too_deep()) from None
    if b"NaN" in data or b"Infinity" in data:
        _refuse_constants(data)
    if len(data) > MAX_DEPTH:  # else it is neither deep nor has it such digits
        _check_depth(data)
        _check_digits(data)
    return data


def _explain(error: Exception) -> str:
    text = str(error)
    if "surrogate" in text or "utf-8" in text.lower():
        return "the payload contains a lone surrogate, which is not valid Unicode"
    if "ircular" in text or "depth" in text or "recursion" in text.lower():
        return _too_deep()
    return f"the payload is not JSON: {text}"


def _too_deep() -> str:
    return f"the payload is nested more than {MAX_DEPTH} levels deep, or contains itself"


def _refuse_constants(data: bytes) -> None:
    def refuse(constant: str) -> None:
        raise InvalidPayload(f"the payload contains {constant}, which JSON does not have")

    json.loads(data, parse_constant=refuse)


def _check_depth(data: bytes) -> None:
    """Only text with that many brackets can be too deep; then it is measured."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = deepest = 0
    for char in _STRINGS.sub(b"", data):
        depth += (char in b"[{") - (char in b"]}")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise InvalidPayload(_too_deep())


def _check_digits(data: bytes) -> None:
    """Postgres stores integers that whoever reads them in Python could not."""
    if (
        len(data) > MAX_DIGITS
        and _LONG_INTEGER.search(data)
        and _LONG_INTEGER.search(_STRINGS.sub(b"", data))
    ):
        raise InvalidPayload(f"the payload contains an integer of more than {MAX_DIGITS:,} digits")


def contains_nul(data: bytes) -> bool:
    r"""Tell a NUL from the six harmless characters ``\u0000`` in a string."""
    stack = [json.loads(data)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if "\x00" in item:
                return True
        elif isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def _encode_awkward(value: Any, limit: int) -> str:
    try:
        text = json.dumps(_escaped(value, MAX_DEPTH // 2))
    except Exception as error:  # noqa: BLE001 - the work is done, and a result may fail in any way to be shown
        return json.dumps({"unstorable": f"the result could not be stored: {type(error).__name__}"})
    if len(text) > limit:
        note = f"the result has {len(text):,} bytes, the limit is {limit:,}"
        return json.dumps({"unstorable": note})
    return text


def _escaped(value: Any, depth: int) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float() if value - value == 0:  # neither infinite nor NaN
            return value
        case dict() if depth:
            return {escape(str(key)): _escaped(item, depth - 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() if depth:
            return [_escaped(item, depth - 1) for item in value]
        case _:
            return escape(str(value) if depth else repr(value)[:1000])


def escape(text: str) -> str:
    """The text with what neither Postgres nor a log file takes written out: NUL and lone surrogates."""
    return text.replace("\x00", "\\u0000").encode("utf-8", "backslashreplace").decode()
