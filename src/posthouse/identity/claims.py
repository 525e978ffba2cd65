"""Map the claims of a token to a tenant and a role, at paths that the settings name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from posthouse.errors import ConfigurationError
from posthouse.identity.principal import Principal
from posthouse.identity.roles import Role
from posthouse.settings import Settings

LONGEST_NAME = 512
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NEVER = {Role.WORKER}
"""Tokens are for people. A worker's permissions are not a tenant's, and its key is revoked separately."""


class Claims:
    def __init__(self, settings: Settings) -> None:
        self._tenant = settings.jwt_tenant_claim
        self._role = settings.jwt_role_claim
        self._roles = role_names(settings.jwt_roles)

    def principal(self, claims: Mapping[str, Any]) -> Principal | None:
        """Return the principal, or None if the role is unknown, or without a tenant unless it is a
        super-admin.
        """
        role = self._roles.get(str(_at(claims, self._role)))
        tenant = _at(claims, self._tenant)
        subject = claims.get("sub")
        if role is None or not _is_name(subject):
            return None
        if role is Role.SUPER_ADMIN:
            tenant = None
        elif not _is_name(tenant):
            return None
        try:
            expires_at = datetime.fromtimestamp(float(claims["exp"]), UTC)
        except (OverflowError, ValueError, OSError):  # beyond the year 9999
            return None
        return Principal(name=f"jwt:{subject}", role=role, tenant=tenant, expires_at=expires_at)


def role_names(text: str) -> dict[str, Role]:
    """Parse ``owner=tenant-admin,member=tenant-viewer`` in addition to the names of the roles.

    A super-admin sees all tenants, so no claim maps to that role unless it is listed here.
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


def _is_name(value: Any) -> bool:
    """Return whether a claim is a text that Postgres can store: no NUL, no lone surrogates."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and not _UNSTORABLE.search(value)


def _at(claims: Mapping[str, Any], path: str) -> Any:
    value: Any = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
