"""The table of permissions in docs/security.md is that of the code."""

from posthouse.identity import Permission, Role, permissions_of
from support.doc_tables import table

SHARED = {Permission.SELF, Permission.DEFINITIONS_READ, Permission.WORKERS_READ, Permission.WORK}
"""Permissions that are not about the records of a tenant."""
OF_A_TENANT = {Role.TENANT_ADMIN, Role.TENANT_VIEWER, Role.EVENT_EMITTER}


def cell(role, permission):
    if permission not in permissions_of(role):
        return "no"
    return "tenant" if role in OF_A_TENANT and permission not in SHARED else "yes"


def test_the_table_of_permissions_is_that_of_the_code():
    documented = {row["permission"].strip("`"): row for row in table("security.md", "permission")}
    assert documented.keys() == set(Permission)
    for permission, row in documented.items():
        assert {role: row[role] for role in Role} == {
            role: cell(role, Permission(permission)) for role in Role
        }, permission
