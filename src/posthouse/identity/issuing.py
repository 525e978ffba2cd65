"""Makes keys. The text of one is given out here and nowhere else."""

from __future__ import annotations

from datetime import datetime

from posthouse.errors import InvalidKey
from posthouse.identity.keys import make_key
from posthouse.identity.roles import Role
from posthouse.storage.keys import store_key
from posthouse.storage.reading import Db

RESERVED = "posthouse"
_WITHOUT_TENANT = {Role.SUPER_ADMIN, Role.WORKER}


async def issue_key(
    connection: Db,
    name: str,
    role: Role,
    *,
    tenant: str | None = None,
    queues: list[str] | None = None,
    expires_at: datetime | None = None,
    actor: str,
) -> str:
    """Make a key and return its text, which cannot be had again."""
    if not name.strip():
        raise InvalidKey("a key has a name, by which people know what it is for")
    if tenant is None and role not in _WITHOUT_TENANT:
        raise InvalidKey(f"a {role} belongs to a tenant: say which")
    if tenant is not None and role is Role.SUPER_ADMIN:
        raise InvalidKey("a super-admin belongs to no tenant; a tenant-admin does")
    if tenant == RESERVED:
        raise InvalidKey(f"{RESERVED} is what our own jobs go by: choose another tenant")
    if queues is not None and role is not Role.WORKER:
        raise InvalidKey("only workers are scoped to queues")
    key = make_key()
    await store_key(
        connection, key.prefix, key.hash, name=name, role=role, tenant=tenant, queues=queues,
        expires_at=expires_at, actor=actor,
    )  # fmt: skip
    return key.text
