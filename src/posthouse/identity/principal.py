"""Whoever makes a request, as their credential says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from posthouse.errors import Forbidden
from posthouse.identity.roles import Permission, Role, permissions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """``tenant`` is None for those who see all of them; ``queues`` is None for those who serve any.
    ``key``: the prefix of the key that was shown, if it was one.
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
            raise Forbidden(f"{self.name} is a {self.role}, which may not do this: it takes {permission}")
