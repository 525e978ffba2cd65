"""API keys: 256 random bits, shown once. Only a hash and a prefix for lookup are stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

_MARK = "ph"
_PREFIX_BYTES = 5  # 8 letters and digits
_SECRET_BYTES = 32
_SHAPE = re.compile(rf"{_MARK}_([a-z2-7]{{8}})_([A-Za-z0-9_-]{{43}})")


class MadeKey(NamedTuple):
    prefix: str
    text: str
    hash: bytes


def make_key() -> MadeKey:
    """Return a new key ``ph_<prefix>_<secret>``. Scanners for leaked credentials recognise the form."""
    prefix = _base32(secrets.token_bytes(_PREFIX_BYTES))
    text = f"{_MARK}_{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return MadeKey(prefix, text, digest(text))


def prefix_of(text: str) -> str | None:
    """Return the prefix of a key, or None if the text cannot be a key."""
    match = _SHAPE.fullmatch(text)
    return match[1] if match else None


def verify(text: str, stored: bytes) -> bool:
    return hmac.compare_digest(digest(text), stored)


def digest(text: str) -> bytes:
    """Return the hash that is stored."""
    return hashlib.sha256(text.encode()).digest()


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().lower()
