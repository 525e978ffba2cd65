"""Tenants in the database."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from posthouse.errors import InvalidTenant, TenantActive, TenantExists, TenantNotFound
from posthouse.storage.errors import translated
from posthouse.storage.queries import Db, call


async def create_tenant(connection: Db, tenant: str, fields: Mapping[str, Any], *, actor: str) -> None:
    """Create a tenant. ``fields``: label, weight, retention_days."""
    if not await _write(connection, "create_tenant", tenant, fields, actor):
        raise TenantExists(f"tenant {tenant!r} already exists")


async def change_tenant(connection: Db, tenant: str, fields: Mapping[str, Any], *, actor: str) -> None:
    """Change a tenant; omitted fields stay."""
    if not await _write(connection, "change_tenant", tenant, fields, actor):
        raise TenantNotFound(f"tenant {tenant!r} does not exist")


async def delete_tenant(connection: Db, tenant: str, *, actor: str) -> None:
    """Delete a tenant with its keys and triggers; its finished jobs stay until retention deletes them."""
    answer = await call(connection, "delete_tenant", id=tenant, actor=actor)
    if answer is None:
        raise TenantNotFound(f"tenant {tenant!r} does not exist")
    if answer == "active":
        raise TenantActive(f"tenant {tenant!r} has unfinished jobs: wait for them to end, or cancel them")


async def _write(connection: Db, name: str, tenant: str, fields: Mapping[str, Any], actor: str) -> bool:
    _check(fields)
    with translated():
        return bool(await call(connection, name, id=tenant, fields=json.dumps(dict(fields)), actor=actor))


def _check(fields: Mapping[str, Any]) -> None:
    weight, days = fields.get("weight", 1), fields.get("retention_days")
    if not 0 < weight < math.inf:
        raise InvalidTenant(f"the tenant weight must be a number above 0, not {weight:g}")
    if days is not None and not 1 <= days < math.inf:
        raise InvalidTenant(f"retention_days must be 1 or more, not {days:g}")
