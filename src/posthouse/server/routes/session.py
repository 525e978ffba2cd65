"""Console sessions and the identity of the caller."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, Field

from posthouse.errors import NotAuthenticated
from posthouse.identity import Permission, Principal, permissions_of
from posthouse.identity.sessions import csrf_token, log_in, log_out
from posthouse.server.http.auth import COOKIE, Access, Gate, address_of, allow, bearer_token
from posthouse.server.http.bodies import api_router
from posthouse.server.schemas.jobs import ApiModel

router = api_router("/session", "session")
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


@router.post("", status_code=201)
async def open_(request: Request, response: Response, new: NewSession | None = None) -> Session:
    """Log in.

    Send a credential in the body or in the Authorization header. Sets an HTTP-only session cookie.
    """
    gate: Gate = request.app.state.gate
    text = new.credential if new else bearer_token(request)
    if text is None:
        raise NotAuthenticated(
            "authentication required: send a credential in the body or in the Authorization header"
        )
    principal = gate.tickets.redeem(text) or await gate.identify(text, address_of(request))
    async with gate.pool.connection() as connection:
        login = await log_in(connection, principal, seconds=gate.settings.session_seconds)
    response.set_cookie(
        COOKIE,
        login.cookie,
        expires=login.expires_at.astimezone(UTC),  # independent of the time zone of the database
        path="/",
        secure=request.url.scheme == "https" or gate.settings.public_url.startswith("https://"),
        httponly=True,
        samesite="lax",
    )
    return _session(principal, login.cookie, login.expires_at)


@router.get("")
async def show(request: Request, access: Known) -> Session:
    """Return the current session and its permissions."""
    cookie = request.cookies.get(COOKIE) if bearer_token(request) is None else None
    return _session(access.principal, cookie, access.principal.expires_at)


@router.delete("", status_code=204)
async def close(request: Request, access: Known, response: Response) -> None:
    """Log out."""
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        async with access.gate.pool.connection() as connection:
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
