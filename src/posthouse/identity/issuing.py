"""Create API keys. The key itself is returned only here."""

from __future__ import annotations

from datetime import datetime

from posthouse.errors import InvalidKey
from posthouse.identity.keys import make_key
from posthouse.identity.roles import Role
from posthouse.storage.keys import store_key
from posthouse.storage.queries import Db

RESERVED = "posthouse"
MOST_KEYS = 100
_WITHOUT_TENANT = {Role.SUPER_ADMIN, Role.WORKER}


async def issue_key(
    connection: Db,
    name: str,
    role: Role,
    *,
    tenant: str | None = None,
    queues: list[str] | None = None,
    may_announce: bool = False,
    expires_at: datetime | None = None,
    actor: str,
    most: int = MOST_KEYS,
) -> str:
    """Create a key and return it. It cannot be shown again.

    ``most``: how many valid keys the tenant may have.
    """
    if not name.strip():
        raise InvalidKey("name is required")
    if tenant is None and role not in _WITHOUT_TENANT:
        raise InvalidKey(f"tenant is required for role {role}")
    if tenant is not None and role is Role.SUPER_ADMIN:
        raise InvalidKey("role super-admin cannot have a tenant; use tenant-admin")
    if tenant == RESERVED:
        raise InvalidKey(f'the tenant name "{RESERVED}" is reserved')
    if queues is not None and role is not Role.WORKER:
        raise InvalidKey("queues can only be set for role worker")
    if may_announce and (role is not Role.WORKER or tenant is not None):
        raise InvalidKey(
            "may_announce is only for worker keys without a tenant: definitions are shared by all tenants"
        )
    key = make_key()
    await store_key(
        connection, key.prefix, key.hash, name=name, role=role, tenant=tenant, queues=queues,
        may_announce=may_announce, expires_at=expires_at, actor=actor, most=most,
    )  # fmt: skip
    return key.text
