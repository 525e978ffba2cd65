"""Tenants in the database."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from posthouse.errors import InvalidTenant, TenantActive, TenantExists, TenantNotFound
from posthouse.storage.errors import translated
from posthouse.storage.reading import Db, fetch_value


async def create_tenant(connection: Db, tenant: str, fields: Mapping[str, Any], *, actor: str) -> None:
    """``fields``: label, weight, retention_days."""
    if not await _write(connection, "tenant_create", tenant, fields, actor):
        raise TenantExists(f"there is a tenant {tenant!r} already")


async def change_tenant(connection: Db, tenant: str, fields: Mapping[str, Any], *, actor: str) -> None:
    """Fields that are not given stay."""
    if not await _write(connection, "tenant_change", tenant, fields, actor):
        raise TenantNotFound(f"there is no tenant {tenant!r}")


async def delete_tenant(connection: Db, tenant: str, *, actor: str) -> None:
    """Its keys and triggers go with it; its ended jobs stay for as long as they are kept."""
    answer = await fetch_value(connection, "tenant_delete", tenant=tenant, actor=actor)
    if answer is None:
        raise TenantNotFound(f"there is no tenant {tenant!r}")
    if answer == "active":
        raise TenantActive(f"{tenant} has jobs that have not ended: wait for them, or cancel them")


async def _write(connection: Db, name: str, tenant: str, fields: Mapping[str, Any], actor: str) -> bool:
    _check(fields)
    with translated():
        return bool(
            await fetch_value(connection, name, tenant=tenant, fields=json.dumps(dict(fields)), actor=actor)
        )


def _check(fields: Mapping[str, Any]) -> None:
    weight, days = fields.get("weight", 1), fields.get("retention_days")
    if not 0 < weight < math.inf:
        raise InvalidTenant(f"a tenant's weight is a number above 0, not {weight:g}")
    if days is not None and not 1 <= days < math.inf:
        raise InvalidTenant(f"a tenant's jobs are kept for a day or more, not {days:g}")
