"""API keys: 256 random bits, shown once. Only a hash and a prefix for lookup are stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import NamedTuple

from posthouse.errors import InvalidKey
from posthouse.identity.roles import Role
from posthouse.storage.credentials import store_key
from posthouse.storage.queries import Db

_MARK = "ph"
_PREFIX_BYTES = 5  # 8 letters and digits
_SECRET_BYTES = 32
_SHAPE = re.compile(rf"{_MARK}_([a-z2-7]{{8}})_([A-Za-z0-9_-]{{43}})")


class NewKey(NamedTuple):
    prefix: str
    text: str
    hash: bytes


def make_key() -> NewKey:
    """Return a new key ``ph_<prefix>_<secret>``. Scanners for leaked credentials can recognize this form."""
    prefix = _base32(secrets.token_bytes(_PREFIX_BYTES))
    text = f"{_MARK}_{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewKey(prefix, text, digest(text))


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


RESERVED_TENANT = "posthouse"
MAX_KEYS = 100
_WITHOUT_TENANT = {Role.SUPER_ADMIN, Role.WORKER}


async def issue_key(
    connection: Db,
    name: str,
    role: Role,
    *,
    tenant: str | None = None,
    queues: list[str] | None = None,
    may_announce: bool = False,
    expires_at: datetime | None = None,
    actor: str,
    most: int = MAX_KEYS,
) -> str:
    """Create a key and return it. It cannot be shown again.

    ``most``: how many valid keys the tenant may have.
    """
    if not name.strip():
        raise InvalidKey("name is required")
    if tenant is None and role not in _WITHOUT_TENANT:
        raise InvalidKey(f"tenant is required for role {role}")
    if tenant is not None and role is Role.SUPER_ADMIN:
        raise InvalidKey("role super-admin cannot have a tenant; use tenant-admin")
    if tenant == RESERVED_TENANT:
        raise InvalidKey(f'the tenant name "{RESERVED_TENANT}" is reserved')
    if queues is not None and role is not Role.WORKER:
        raise InvalidKey("queues can only be set for role worker")
    if may_announce and (role is not Role.WORKER or tenant is not None):
        raise InvalidKey(
            "may_announce is only for worker keys without a tenant: definitions are shared by all tenants"
        )
    key = make_key()
    await store_key(
        connection, key.prefix, key.hash, name=name, role=role, tenant=tenant, queues=queues,
        may_announce=may_announce, expires_at=expires_at, actor=actor, most=most,
    )  # fmt: skip
    return key.text
