"""Roles, what they permit, and the principals that have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from posthouse.errors import Forbidden


class Role(StrEnum):
    SUPER_ADMIN = "super-admin"
    TENANT_ADMIN = "tenant-admin"
    TENANT_VIEWER = "tenant-viewer"
    EVENT_EMITTER = "event-emitter"
    WORKER = "worker"


class Permission(StrEnum):
    """A permission that a route requires: a resource and an action."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    JOBS_ERASE = "jobs:erase"
    TRIGGERS_READ = "triggers:read"
    TRIGGERS_WRITE = "triggers:write"
    EVENTS_READ = "events:read"
    EVENTS_EMIT = "events:emit"
    DEFINITIONS_READ = "definitions:read"
    DEFINITIONS_WRITE = "definitions:write"
    WORKERS_READ = "workers:read"
    WORKERS_WRITE = "workers:write"
    QUEUES_WRITE = "queues:write"
    TENANTS_READ = "tenants:read"
    TENANTS_WRITE = "tenants:write"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    AUDIT_READ = "audit:read"
    OVERVIEW_READ = "overview:read"
    METRICS_READ = "metrics:read"
    DEMOS_RUN = "demos:run"
    WORK = "worker:work"
    SELF = "self:read"


_VIEW = {
    Permission.SELF,
    Permission.JOBS_READ,
    Permission.TRIGGERS_READ,
    Permission.EVENTS_READ,
    Permission.DEFINITIONS_READ,
    Permission.WORKERS_READ,
}
_PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.SUPER_ADMIN: frozenset(Permission) - {Permission.WORK},
    Role.TENANT_ADMIN: frozenset(
        _VIEW
        | {
            Permission.JOBS_WRITE,
            Permission.JOBS_ERASE,
            Permission.TRIGGERS_WRITE,
            Permission.EVENTS_EMIT,
            Permission.KEYS_READ,
            Permission.KEYS_WRITE,
            Permission.AUDIT_READ,
        }
    ),
    Role.TENANT_VIEWER: frozenset(_VIEW),
    Role.EVENT_EMITTER: frozenset({Permission.EVENTS_EMIT, Permission.SELF}),
    Role.WORKER: frozenset({Permission.WORK, Permission.SELF}),
}


def permissions_of(role: Role) -> frozenset[Permission]:
    return _PERMISSIONS[role]


def may_grant(giver: Role, role: Role) -> bool:
    """Return whether a caller may grant a role.

    A caller may grant only its own permissions; a super-admin may grant any role.
    """
    return giver is Role.SUPER_ADMIN or permissions_of(role) <= permissions_of(giver)


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

    def can(self, permission: Permission) -> bool:
        return permission in permissions_of(self.role)

    def require(self, permission: Permission) -> None:
        if not self.can(permission):
            raise Forbidden(f"permission denied: {self.name} ({self.role}) lacks {permission}")
