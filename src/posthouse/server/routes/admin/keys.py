"""API keys. Tenant admins manage the keys of their tenant, with at most their own permissions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from posthouse import insights
from posthouse.errors import Forbidden
from posthouse.identity import Permission, Role, issue_key, may_grant, prefix_of
from posthouse.insights import KeyInfo
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.bodies import api_router
from posthouse.server.http.parameters import ApiDatetime
from posthouse.server.schemas.jobs import ApiModel
from posthouse.storage.credentials import revoke_key

router = api_router("/admin/keys", "keys")
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


@router.get("")
async def find(access: Reader, tenant: str | None = None) -> list[KeyInfo]:
    """List API keys, newest first.

    The secrets are not stored and not returned.
    """
    async with access.transaction() as db:
        return await insights.keys(db, tenant=access.resolve_tenant(tenant))


@router.post("", status_code=201)
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
            most=access.gate.settings.keys_per_tenant,
        )
    return CreatedKey(
        key=text,
        prefix=prefix_of(text) or "",
        tenant_id=tenant,
        **new.model_dump(include={"name", "role", "expires_at"}),
    )


@router.delete("/{prefix}", status_code=204)
async def revoke(prefix: str, access: Writer) -> None:
    """Revoke an API key.

    It takes effect immediately and cannot be undone. The key stays in the list.
    """
    async with access.transaction() as db:
        await revoke_key(db, prefix, actor=access.actor)
    access.gate.memory.invalidate(prefix)
