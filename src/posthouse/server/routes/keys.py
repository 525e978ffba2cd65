"""Keys of the API. Admins of a tenant make and end those of their own, with no more rights than they have."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from posthouse import insights
from posthouse.errors import Forbidden
from posthouse.identity import Permission, Role, issue_key, may_grant, prefix_of
from posthouse.insights import KeyInfo
from posthouse.server.access import Access, allow
from posthouse.server.bodies import api_router
from posthouse.server.moments import Moment
from posthouse.server.schemas import Strict
from posthouse.storage.keys import revoke_key

router = api_router("/admin/keys", "keys")
Reader = Annotated[Access, allow(Permission.KEYS_READ)]
Writer = Annotated[Access, allow(Permission.KEYS_WRITE)]


class NewKey(Strict):
    """A key to make. ``tenant_id``: for super-admins to say; that of others is their own."""

    name: str = Field(min_length=1, max_length=200)
    role: Role
    tenant_id: str | None = Field(None, min_length=1, max_length=100)
    queues: list[str] | None = Field(None, max_length=100)
    expires_at: Moment | None = None


class MadeKey(BaseModel):
    """The key itself is shown this once."""

    key: str
    prefix: str
    name: str
    role: Role
    tenant_id: str | None
    expires_at: datetime | None


@router.get("")
async def find(access: Reader, tenant: str | None = None) -> list[KeyInfo]:
    """Keys, newest first; what they are is not stored."""
    async with access.session() as db:
        return await insights.keys(db, tenant=access.tenant(tenant))


@router.post("", status_code=201)
async def create(new: NewKey, access: Writer) -> MadeKey:
    """Make a key."""
    if not may_grant(access.principal.role, new.role):
        raise Forbidden(f"a {access.principal.role} cannot make the key of a {new.role}")
    tenant = access.tenant(new.tenant_id)
    async with access.session() as db:
        text = await issue_key(
            db,
            new.name,
            new.role,
            tenant=tenant,
            queues=new.queues,
            expires_at=new.expires_at,
            actor=access.actor,
        )
    return MadeKey(
        key=text,
        prefix=prefix_of(text) or "",
        tenant_id=tenant,
        **new.model_dump(include={"name", "role", "expires_at"}),
    )


@router.delete("/{prefix}", status_code=204)
async def revoke(prefix: str, access: Writer) -> None:
    """End a key, at once and for good. It stays in the list."""
    async with access.session() as db:
        await revoke_key(db, prefix, actor=access.actor)
    access.gate.memory.forget(prefix)
