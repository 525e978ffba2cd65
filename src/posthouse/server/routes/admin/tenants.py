"""Tenants: worker share and retention."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posthouse import insights
from posthouse.identity import Permission
from posthouse.insights import TenantInfo
from posthouse.server.http.auth import Access, allow
from posthouse.server.http.requests import api_router
from posthouse.server.schemas.jobs import ApiModel
from posthouse.storage.actions import change_tenant, create_tenant, delete_tenant

router = api_router("/admin/tenants", "tenants")
Reader = Annotated[Access, allow(Permission.TENANTS_READ)]
Writer = Annotated[Access, allow(Permission.TENANTS_WRITE)]
Weight = Annotated[
    float,
    Field(gt=0, le=1_000_000, description="Share of worker capacity relative to other tenants; default 1."),
]
Days = Annotated[
    float, Field(ge=1, le=100_000, description="Retention of finished jobs in days; null uses the setting.")
]
Label = Annotated[str, Field(max_length=200)]


class TenantChanges(ApiModel):
    """The fields to change; omitted fields stay unchanged."""

    label: Label = ""
    weight: Weight = 1
    retention_days: Days | None = None


class NewTenant(TenantChanges):
    """A tenant to create."""

    id: str = Field(min_length=1, max_length=100, pattern=r"^[^\s/\x00-\x1f\x7f]+$")


@router.get("")
async def find(access: Reader) -> list[TenantInfo]:
    """List tenants that were created or have jobs."""
    async with access.transaction() as db:
        return await insights.tenants(db)


@router.post("", status_code=201)
async def create(new: NewTenant, access: Writer) -> TenantInfo:
    """Create a tenant."""
    async with access.transaction() as db:
        fields = new.model_dump(exclude_unset=True, exclude={"id"})
        await create_tenant(db, new.id, fields, actor=access.actor)
        return await insights.get_tenant(db, new.id)


@router.get("/{tenant_id}")
async def show(tenant_id: str, access: Reader) -> TenantInfo:
    """Get a tenant."""
    async with access.transaction() as db:
        return await insights.get_tenant(db, tenant_id)


@router.patch("/{tenant_id}")
async def change(tenant_id: str, changes: TenantChanges, access: Writer) -> TenantInfo:
    """Change a tenant."""
    async with access.transaction() as db:
        await change_tenant(db, tenant_id, changes.model_dump(exclude_unset=True), actor=access.actor)
        return await insights.get_tenant(db, tenant_id)


@router.delete("/{tenant_id}", status_code=204)
async def delete(tenant_id: str, access: Writer) -> None:
    """Delete a tenant without active jobs.

    Its API keys are revoked and its triggers deleted immediately.
    """
    async with access.transaction() as db:
        await delete_tenant(db, tenant_id, actor=access.actor)
