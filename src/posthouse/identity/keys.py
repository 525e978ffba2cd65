"""API keys: 256 random bits that are shown once. What is stored is a hash, and a prefix to find it by."""

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
    """``ph_<prefix>_<secret>``: recognisable by scanners that look for leaked credentials."""
    prefix = _base32(secrets.token_bytes(_PREFIX_BYTES))
    text = f"{_MARK}_{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return MadeKey(prefix, text, digest(text))


def prefix_of(text: str) -> str | None:
    """The part that a key is found by; None for what cannot be a key."""
    match = _SHAPE.fullmatch(text)
    return match[1] if match else None


def verify(text: str, stored: bytes) -> bool:
    return hmac.compare_digest(digest(text), stored)


def digest(text: str) -> bytes:
    """What is stored of a random secret."""
    return hashlib.sha256(text.encode()).digest()


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().lower()
