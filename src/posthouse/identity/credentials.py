"""API keys and console sessions.

A key is 256 random bits, shown once. Only a hash and a prefix for lookup are stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from datetime import datetime
from typing import NamedTuple

from posthouse.errors import Forbidden, InvalidKey
from posthouse.identity.roles import Principal, Role
from posthouse.storage.credentials import close_session, find_session, open_session, store_key
from posthouse.storage.queries import Db

_MARK = "ph"
_PREFIX_BYTES = 5  # 8 letters and digits
_SECRET_BYTES = 32
_SHAPE = re.compile(rf"{_MARK}_([a-z2-7]{{8}})_([A-Za-z0-9_-]{{43}})")


class GeneratedKey(NamedTuple):
    prefix: str
    text: str
    hash: bytes


def make_key() -> GeneratedKey:
    """Return a new key ``ph_<prefix>_<secret>``. Scanners for leaked credentials can recognize this form."""
    prefix = _base32(secrets.token_bytes(_PREFIX_BYTES))
    text = f"{_MARK}_{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return GeneratedKey(prefix, text, digest(text))


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
    limit: int = MAX_KEYS,
) -> str:
    """Create a key and return it. It cannot be shown again.

    ``limit``: how many valid keys the tenant may have.
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
        may_announce=may_announce, expires_at=expires_at, actor=actor, limit=limit,
    )  # fmt: skip
    return key.text


_LOGIN_ROLES = {Role.SUPER_ADMIN, Role.TENANT_ADMIN, Role.TENANT_VIEWER}


class Login(NamedTuple):
    cookie: str
    expires_at: datetime


async def log_in(connection: Db, principal: Principal, *, seconds: float) -> Login:
    if principal.role not in _LOGIN_ROLES:
        raise Forbidden(f"role {principal.role} cannot log in; send the key with every request")
    cookie = secrets.token_urlsafe(32)
    fields = {
        "key_prefix": principal.key,
        "name": principal.name,
        "role": principal.role,
        "tenant_id": principal.tenant,
        "expires_at": principal.expires_at,
    }
    return Login(cookie, await open_session(connection, digest(cookie), fields, seconds=seconds))


async def session_principal(connection: Db, cookie: str) -> Principal | None:
    found = await find_session(connection, digest(cookie))
    if found is None:
        return None
    return Principal(
        name=found["name"],
        role=Role(found["role"]),
        tenant=found["tenant_id"],
        expires_at=found["expires_at"],
    )


async def log_out(connection: Db, cookie: str) -> None:
    await close_session(connection, digest(cookie))


def csrf_token(cookie: str) -> str:
    """Return the CSRF token. Another site can send the cookie, but cannot read this token."""
    return hmac.new(cookie.encode(), b"posthouse csrf", hashlib.sha256).hexdigest()


def is_csrf_token(cookie: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(csrf_token(cookie).encode(), token.encode())


TTL_SECONDS = 600.0


class LoginTickets:
    """Login tickets of this process. Only their digests are stored, in memory."""

    def __init__(self) -> None:
        self._open: dict[bytes, tuple[Principal, float]] = {}

    def issue(self, principal: Principal, *, seconds: float = TTL_SECONDS) -> str:
        ticket = f"once_{secrets.token_urlsafe(32)}"
        self._open[digest(ticket)] = (principal, time.monotonic() + seconds)
        return ticket

    def redeem(self, text: str) -> Principal | None:
        """Return the principal of a ticket, or None if the ticket is unknown, expired or already used."""
        principal, until = self._open.pop(digest(text), (None, 0.0))
        return principal if time.monotonic() < until else None
