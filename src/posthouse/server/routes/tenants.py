"""Tenants: their share of the workers and how long their jobs are kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posthouse import insights
from posthouse.identity import Permission
from posthouse.insights import TenantInfo
from posthouse.server.access import Access, allow
from posthouse.server.bodies import api_router
from posthouse.server.schemas import Strict
from posthouse.storage.tenants import change_tenant, create_tenant, delete_tenant

router = api_router("/admin/tenants", "tenants")
Reader = Annotated[Access, allow(Permission.TENANTS_READ)]
Writer = Annotated[Access, allow(Permission.TENANTS_WRITE)]
Weight = Annotated[float, Field(gt=0, le=1_000_000, description="Its share of the workers; 1 is ordinary.")]
Days = Annotated[
    float, Field(ge=1, le=100_000, description="How long its jobs are kept. Null: as the setting says.")
]
Label = Annotated[str, Field(max_length=200)]


class TenantChanges(Strict):
    """What is left out stays as it is."""

    label: Label = ""
    weight: Weight = 1
    retention_days: Days | None = None


class NewTenant(TenantChanges):
    id: str = Field(min_length=1, max_length=100, pattern=r"^[^\s/\x00-\x1f\x7f]+$")


@router.get("")
async def find(access: Reader) -> list[TenantInfo]:
    """Tenants that were created or have jobs."""
    async with access.session() as db:
        return await insights.tenants(db)


@router.post("", status_code=201)
async def create(new: NewTenant, access: Writer) -> TenantInfo:
    """Create a tenant."""
    async with access.session() as db:
        fields = new.model_dump(exclude_unset=True, exclude={"id"})
        await create_tenant(db, new.id, fields, actor=access.actor)
        return await insights.get_tenant(db, new.id)


@router.get("/{tenant_id}")
async def show(tenant_id: str, access: Reader) -> TenantInfo:
    """One tenant."""
    async with access.session() as db:
        return await insights.get_tenant(db, tenant_id)


@router.patch("/{tenant_id}")
async def change(tenant_id: str, changes: TenantChanges, access: Writer) -> TenantInfo:
    """Change a tenant."""
    async with access.session() as db:
        await change_tenant(db, tenant_id, changes.model_dump(exclude_unset=True), actor=access.actor)
        return await insights.get_tenant(db, tenant_id)


@router.delete("/{tenant_id}", status_code=204)
async def delete(tenant_id: str, access: Writer) -> None:
    """Forget a tenant that has no active jobs. Its keys end at once, and its triggers."""
    async with access.session() as db:
        await delete_tenant(db, tenant_id, actor=access.actor)
