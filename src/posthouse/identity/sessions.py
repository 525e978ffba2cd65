"""Console logins: a random cookie stands for the credential, which is never part of a page."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from datetime import datetime
from typing import NamedTuple

from posthouse.errors import Forbidden
from posthouse.identity.keys import digest
from posthouse.identity.roles import Principal, Role
from posthouse.storage.credentials import close_session, find_session, open_session
from posthouse.storage.queries import Db

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
