"""Encode payloads and results as JSON that Postgres can store.

An invalid payload is rejected, because the caller can correct it. A result belongs to work that is already
done, so values that cannot be stored are escaped or replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from posthouse.errors import InvalidPayload, InvalidResult, PayloadTooLarge

MAX_DEPTH = 200
MAX_DIGITS = 4300  # Python's default limit for parsing integers
_NUL = b"\\u0000"
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEP = dict(zip(b"[{]}", (1, 1, -1, -1), strict=True))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_NO_SEPARATORS = _NO_BRACKETS.replace(b",", b"")
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER = b"0" * (MAX_DIGITS + 1)


class JsonText(str):
    """A result that another process has already encoded with encode_result."""

    __slots__ = ()


def encode_payload(value: Any, limit: int) -> str:
    """Return the JSON text of a payload. Raises InvalidPayload above ``limit`` bytes."""
    return payload_bytes(value, limit).decode()


def payload_bytes(value: Any, limit: int) -> bytes:
    if not isinstance(value, dict):
        if not isinstance(value, Mapping):
            raise InvalidPayload(f"the payload must be a JSON object, not {type(value).__name__}")
        value = dict(value)
    try:
        data = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise InvalidPayload(_explain(error)) from None
    except (ValueError, RecursionError):
        raise InvalidPayload(_too_deep()) from None
    if b"NaN" in data or b"Infinity" in data:
        _reject_nan(data)
    if len(data) > MAX_DEPTH:  # otherwise it can neither be too deep nor contain such integers
        _check_depth(data)
        _check_digits(data)
    if len(data) > limit:
        raise PayloadTooLarge(
            f"the payload has {len(data):,} bytes, the limit is {limit:,}; "
            "store the data elsewhere and pass a reference, or raise max_payload_bytes"
        )
    if _NUL in data and contains_nul(data):
        raise InvalidPayload("the payload contains a NUL character, which Postgres cannot store")
    return data


def encode_result(value: Any, limit: int) -> str:
    """Return the JSON text of a result.

    Raise InvalidResult for an object that has no JSON form, naming its type. Texts that Postgres cannot
    hold are escaped, and a result that is too large is replaced by a note.
    """
    if isinstance(value, JsonText):
        return value
    unknown: list[type[Any]] = []
    try:
        data = to_json(value, inf_nan_mode="strings", fallback=lambda item: unknown.append(type(item)))
        if unknown:
            raise InvalidResult(_no_json(unknown[0]))
        if len(data) <= limit and not (_NUL in data and contains_nul(data)):
            _check_depth(data)
            _check_digits(data)
            return data.decode()
        value = json.loads(data)  # models, dates and similar values are plain JSON now
    except (ValueError, RecursionError, InvalidPayload, PydanticSerializationError):
        pass
    return _encode_awkward(value, limit)


def parse_json(data: bytes | str) -> Any:
    """Parse like json.loads, in half the time. Raises ValueError or RecursionError."""
    try:
        return from_json(data)
    except ValueError:  # lone surrogates, deep nesting, or no JSON at all
        return json.loads(data)


def _no_json(kind: type[Any]) -> str:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return (
        f"the result contains an object of type {name}, which cannot be stored as JSON; "
        "return dicts, lists, texts, numbers, dates, dataclasses or Pydantic models"
    )


def _explain(error: Exception) -> str:
    text = str(error)
    if "surrogate" in text or "utf-8" in text.lower():
        return "the payload contains a lone surrogate, which is not valid Unicode"
    if "ircular" in text or "depth" in text or "recursion" in text.lower():
        return _too_deep()
    return f"the payload is not JSON: {text}"


def _too_deep() -> str:
    return f"the payload is nested more than {MAX_DEPTH} levels deep, or contains itself"


def _reject_nan(data: bytes) -> None:
    def reject_constant(constant: str) -> None:
        raise InvalidPayload(f"the payload contains {constant}, which JSON does not support")

    json.loads(data, parse_constant=reject_constant)


def _check_depth(data: bytes) -> None:
    """Reject payloads that are nested too deeply. The depth is measured only with that many brackets."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    if depth_of(data) > MAX_DEPTH:
        raise InvalidPayload(_too_deep())


def _check_digits(data: bytes) -> None:
    """Reject integers that Postgres can store but Python cannot read back."""
    if len(data) > MAX_DIGITS and _has_long_integer(data) and _has_long_integer(without_strings(data)):
        raise InvalidPayload(f"the payload contains an integer of more than {MAX_DIGITS:,} digits")


def _has_long_integer(data: bytes) -> bool:
    """Return whether JSON has a very long integer.

    Digits are replaced by zeros first: a search for many zeros is 20 times as fast as a regular expression.
    """
    return _LONG_INTEGER in data.translate(_DIGITS_AS_ZEROS)


def depth_of(data: bytes) -> int:
    """Return the nesting depth of a JSON text."""
    brackets = without_strings(data).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def values_of(data: bytes) -> int:
    """Return the number of values in a JSON text without strings. With strings, it is an upper limit."""
    return 1 + data.count(b",") + data.count(b"{") + data.count(b"[")


def values_by_depth(data: bytes) -> list[int]:
    """Return the maximum number of values at each depth of a JSON text. The outermost value is at depth 0."""
    counts = [1]
    depth = 0
    for mark in without_strings(data).translate(None, _NO_SEPARATORS):
        depth += _STEP.get(mark, 0)
        if depth == len(counts):
            counts.append(0)
        if mark not in b"]}":
            counts[depth] += 1
    return counts


def without_strings(data: bytes) -> bytes:
    return _STRINGS.sub(b"", data)


def contains_nul(data: bytes) -> bool:
    r"""Return whether a string contains a NUL character, and not just the literal text ``\u0000``."""
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
    except InvalidResult:
        raise
    except Exception as error:  # noqa: BLE001 - the work is done; encoding an arbitrary result may raise anything
        return json.dumps({"unstorable": f"the result could not be stored: {type(error).__name__}"})
    if len(text) > limit:
        notice = f"the result has {len(text):,} bytes, the limit is {limit:,}"
        return json.dumps({"unstorable": notice})
    return text


def _escaped(value: Any, depth: int) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float() if value - value == 0:  # finite
            return value
        case dict() if depth:
            return {escape(str(_escaped(key, 1))): _escaped(item, depth - 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() if depth:
            return [_escaped(item, depth - 1) for item in value]
        case str() | float() | dict() | list() | tuple() | set() | frozenset():
            return escape(value if isinstance(value, str) else repr(value)[:1000])
        case _:
            return _escaped(_plain(value), depth)


def _plain(value: Any) -> Any:
    """Return a date, a model or a similar object as plain JSON values."""
    try:
        return json.loads(to_json(value))
    except (ValueError, RecursionError, PydanticSerializationError):
        raise InvalidResult(_no_json(type(value))) from None


def escape(text: str) -> str:
    """Escape the characters that neither Postgres nor a log file accepts: NUL and lone surrogates."""
    return text.replace("\x00", "\\u0000").encode("utf-8", "backslashreplace").decode()
