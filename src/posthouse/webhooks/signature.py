"""Signatures, which let a receiver verify the origin and age of a message."""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Posthouse-Signature"


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """``t=1700000000,v1=…``: the HMAC-SHA256, in hex, of the timestamp, a full stop and the body."""
    signed = f"{timestamp}.".encode() + body
    return f"t={timestamp},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
