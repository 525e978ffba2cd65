"""The caller of a request, as authenticated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from posthouse.errors import Forbidden
from posthouse.identity.roles import Permission, Role, permissions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    ``tenant`` is None for callers with access to all tenants; ``queues`` is None for access to all queues.
    ``key`` is the prefix of the API key, if one was used.
    """

    name: str
    role: Role
    tenant: str | None
    queues: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    key: str | None = None

    def may(self, permission: Permission) -> bool:
        return permission in permissions_of(self.role)

    def demand(self, permission: Permission) -> None:
        if not self.may(permission):
            raise Forbidden(f"permission denied: {self.name} ({self.role}) lacks {permission}")
