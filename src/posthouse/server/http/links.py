"""Signed links: access to one resource of a tenant until a certain time, without a credential.

Players fetch media without headers, and playlists name their segments by relative URLs, so the signature is a
part of the path: ``/shop/films/{link}/{film_id}/index.m3u8``. Callers with a credential use ``session`` in
its place.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import Path as InPath

from posthouse.errors import Forbidden
from posthouse.identity import Permission, Principal, Role
from posthouse.server.http.auth import (
    PRINCIPAL,
    STATEMENT_SECONDS,
    Access,
    Tenant,
    allow,
    authorized,
    declare,
)
from posthouse.storage.connections import tenant_transaction
from posthouse.storage.queries import fetch_value

SESSION = "session"
Link = Annotated[str, InPath(description="A signed link; or `session`, with a credential.")]
NEVER = 0
"""The expiry of a link that does not expire."""


async def signed_link(request: Request, subject: str, *, tenant: str, life: timedelta | None) -> str:
    """Return the ``{link}`` part of a URL that gives access to a subject of a tenant for some time.

    - ``subject``: what ``allow_linked`` of the route names, such as ``shop/film/29``.
    - ``life``: how long the link is valid, at least; None: it does not expire. Links of the same tenth of
      their life are equal, so that browsers cache what they lead to.
    """
    expires = NEVER if life is None else expiry(time.time(), life)
    return sign(await _secret(request), subject, tenant, expires)


def expiry(now: float, life: timedelta) -> int:
    """Return when a link expires: rounded up to a tenth of its life."""
    seconds = life.total_seconds()
    until, step = int(now + seconds), max(1, int(seconds / 10))
    return until + -until % step


async def verify_link(request: Request, link: str, subject: str) -> str:
    """Return the tenant of a link. Raises Forbidden if it is invalid, expired or of another subject."""
    return verify(await _secret(request), link, subject, time.time())


def allow_linked(permission: Permission, subject: str) -> Any:
    """Return the dependency of a route with a ``{link}`` in its path, which is for reading.

    The link is a signed link, or ``session`` with a credential that has the permission.

    - ``subject``: a template of the path's parameters, such as ``shop/film/{film_id}``.
    """
    credential: Any = allow(permission, tenant_scoped=True).dependency

    async def authorize(request: Request) -> Access:
        link = request.path_params["link"]
        if link == SESSION:
            found: Access = await credential.authorize(request)
            return found
        tenant = await verify_link(request, link, subject.format(**request.path_params))
        principal = Principal(name="signed-link", role=Role.TENANT_VIEWER, tenant=tenant)
        request.scope[PRINCIPAL] = principal.name
        principal.require(permission)
        return Access(principal, request.app.state.authenticator, tenant)

    async def admit(request: Request, link: Link, tenant: Tenant = None) -> Access:
        access = await authorized(request, authorize)
        return replace(access, tenant=access.resolve_tenant(tenant if link == SESSION else access.tenant))

    return Depends(declare(admit, {permission}, authorize))


def sign(secret: bytes, subject: str, tenant: str, expires: int) -> str:
    return f"{expires}.{_encoded(tenant.encode())}.{_signature(secret, subject, tenant, expires)}"


def verify(secret: bytes, link: str, subject: str, now: float) -> str:
    try:
        expires, tenant, signature = link.split(".")
        name = base64.urlsafe_b64decode(f"{tenant}==").decode()
        until = int(expires)
    except ValueError:
        raise Forbidden("invalid link: it is incomplete; request a new one") from None
    if not hmac.compare_digest(signature.encode(), _signature(secret, subject, name, until).encode()):
        raise Forbidden("invalid link: it was changed or belongs to another file; request a new one")
    if until != NEVER and until <= now:
        raise Forbidden("the link has expired; request a new one")
    return name


def _signature(secret: bytes, subject: str, tenant: str, expires: int) -> str:
    text = "\0".join(("posthouse link", tenant, subject, str(expires)))
    return _encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def _secret(request: Request) -> bytes:
    """Return the secret of the installation, which is read once per server."""
    state = request.app.state
    if state.link_secret is None:
        pool = state.authenticator.pool
        async with (
            pool.connection() as connection,
            tenant_transaction(connection, None, seconds=STATEMENT_SECONDS) as db,
        ):
            state.link_secret = await fetch_value(db, "link_secret")
    return bytes(state.link_secret)
