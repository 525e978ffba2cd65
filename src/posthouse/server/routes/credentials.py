"""API keys, and console sessions.

Tenant admins manage the keys of their tenant, with at most their own permissions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, Field

from posthouse import insights
from posthouse.errors import Forbidden, NotAuthenticated
from posthouse.identity import Permission, Principal, Role, issue_key, may_grant, permissions_of, prefix_of
from posthouse.identity.credentials import csrf_token, log_in, log_out
from posthouse.insights import KeyInfo
from posthouse.server.http.auth import COOKIE, Access, RequestAuthenticator, address_of, allow, bearer_token
from posthouse.server.http.requests import ApiDatetime, api_router
from posthouse.server.schemas.jobs import ApiModel
from posthouse.storage.credentials import revoke_key

keys = api_router("/admin/keys", "keys")
Reader = Annotated[Access, allow(Permission.KEYS_READ)]
Writer = Annotated[Access, allow(Permission.KEYS_WRITE)]


class NewKey(ApiModel):
    """An API key to create. ``tenant_id`` is for super-admins; others create keys of their own tenant."""

    name: str = Field(min_length=1, max_length=200)
    role: Role
    tenant_id: str | None = Field(None, min_length=1, max_length=100)
    queues: list[str] | None = Field(None, max_length=100, fail_fast=True)
    may_announce: bool = Field(
        False,
        description="For worker keys: whether the worker may store the definitions, limits and triggers of "
        "its code. A key with queues announces only kinds of these queues, and no triggers.",
    )
    expires_at: ApiDatetime | None = None


class CreatedKey(BaseModel):
    """The new API key. It is returned only once; only a hash is stored."""

    key: str
    prefix: str
    name: str
    role: Role
    tenant_id: str | None
    expires_at: datetime | None


@keys.get("")
async def find(access: Reader, tenant: str | None = None) -> list[KeyInfo]:
    """List API keys, newest first.

    The secrets are not stored and not returned.
    """
    async with access.transaction() as db:
        return await insights.keys(db, tenant=access.resolve_tenant(tenant))


@keys.post("", status_code=201)
async def create(new: NewKey, access: Writer) -> CreatedKey:
    """Create an API key."""
    if not may_grant(access.principal.role, new.role):
        raise Forbidden(f"role {access.principal.role} cannot create {new.role} keys")
    tenant = access.resolve_tenant(new.tenant_id)
    async with access.transaction() as db:
        text = await issue_key(
            db,
            new.name,
            new.role,
            tenant=tenant,
            queues=new.queues,
            may_announce=new.may_announce,
            expires_at=new.expires_at,
            actor=access.actor,
            limit=access.authenticator.settings.keys_per_tenant,
        )
    return CreatedKey(
        key=text,
        prefix=prefix_of(text) or "",
        tenant_id=tenant,
        **new.model_dump(include={"name", "role", "expires_at"}),
    )


@keys.delete("/{prefix}", status_code=204)
async def revoke(prefix: str, access: Writer) -> None:
    """Revoke an API key.

    It takes effect immediately and cannot be undone. The key stays in the list.
    """
    async with access.transaction() as db:
        await revoke_key(db, prefix, actor=access.actor)
    access.authenticator.memory.invalidate(prefix)


session = api_router("/session", "session")
Known = Annotated[Access, allow(Permission.SELF)]


class NewSession(ApiModel):
    """Credentials to log in with: an API key, a JSON Web Token, or the admin secret."""

    credential: str = Field(min_length=1, max_length=16_384)


class Session(BaseModel):
    """The authenticated caller."""

    name: str
    role: str
    tenant_id: str | None
    permissions: list[str]
    expires_at: datetime | None
    csrf_token: str | None


@session.post("", status_code=201)
async def open_(request: Request, response: Response, new: NewSession | None = None) -> Session:
    """Log in.

    Send a credential in the body or in the Authorization header. Sets an HTTP-only session cookie.
    """
    authenticator: RequestAuthenticator = request.app.state.authenticator
    text = new.credential if new else bearer_token(request)
    if text is None:
        raise NotAuthenticated(
            "authentication required: send a credential in the body or in the Authorization header"
        )
    principal = authenticator.tickets.redeem(text) or await authenticator.identify(text, address_of(request))
    async with authenticator.pool.connection() as connection:
        login = await log_in(connection, principal, seconds=authenticator.settings.session_seconds)
    response.set_cookie(
        COOKIE,
        login.cookie,
        expires=login.expires_at.astimezone(UTC),  # independent of the time zone of the database
        path="/",
        secure=request.url.scheme == "https" or authenticator.settings.public_url.startswith("https://"),
        httponly=True,
        samesite="lax",
    )
    return _session(principal, login.cookie, login.expires_at)


@session.get("")
async def show(request: Request, access: Known) -> Session:
    """Return the current session and its permissions."""
    cookie = request.cookies.get(COOKIE) if bearer_token(request) is None else None
    return _session(access.principal, cookie, access.principal.expires_at)


@session.delete("", status_code=204)
async def close(request: Request, access: Known, response: Response) -> None:
    """Log out."""
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        async with access.authenticator.pool.connection() as connection:
            await log_out(connection, cookie)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")


def _session(principal: Principal, cookie: str | None, expires_at: datetime | None) -> Session:
    return Session(
        name=principal.name,
        role=principal.role,
        tenant_id=principal.tenant,
        permissions=sorted(permissions_of(principal.role)),
        expires_at=expires_at,
        csrf_token=None if cookie is None else csrf_token(cookie),
    )
