"""What a token says of its owner: a tenant and a role, at places that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from posthouse.errors import ConfigurationError
from posthouse.identity.principal import Principal
from posthouse.identity.roles import Role
from posthouse.settings import Settings

_NEVER = {Role.WORKER}
"""Tokens are people's. What a worker may do is not a tenant's, and its key is revoked by itself."""


class Claims:
    def __init__(self, settings: Settings) -> None:
        self._tenant = settings.jwt_tenant_claim
        self._role = settings.jwt_role_claim
        self._roles = role_names(settings.jwt_roles)

    def principal(self, claims: Mapping[str, Any]) -> Principal | None:
        """None for a token whose role is unknown, or that belongs to no tenant and is no super-admin's."""
        role = self._roles.get(str(_at(claims, self._role)))
        tenant = _at(claims, self._tenant)
        subject = claims.get("sub")
        if role is None or not isinstance(subject, str) or not subject:
            return None
        if role is Role.SUPER_ADMIN:
            tenant = None
        elif not isinstance(tenant, str) or not tenant:
            return None
        expires_at = datetime.fromtimestamp(claims["exp"], UTC)
        return Principal(name=f"jwt:{subject}", role=role, tenant=tenant, expires_at=expires_at)


def role_names(text: str) -> dict[str, Role]:
    """``owner=tenant-admin,member=tenant-viewer``, beside the roles' own names. A super-admin sees all
    tenants: this role goes by no name unless one is given to it here.
    """
    names = {role.value: role for role in Role if role not in {*_NEVER, Role.SUPER_ADMIN}}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, role = (part.strip() for part in item.partition("="))
        if role not in set(Role) - _NEVER:
            choice = ", ".join(sorted(set(Role) - _NEVER))
            raise ConfigurationError(
                f"jwt_roles: {item!r} does not name a role; write name=role with {choice}"
            )
        names[name] = Role(role)
    return names


def _at(claims: Mapping[str, Any], path: str) -> Any:
    value: Any = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
