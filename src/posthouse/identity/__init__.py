"""Authentication and authorization: roles, principals, keys, tokens, logins.

Modules that need the extra `server` (authenticator, tokens) are imported directly.
"""

from posthouse.identity.credentials import GeneratedKey, issue_key, make_key, prefix_of, verify
from posthouse.identity.roles import Permission, Principal, Role, may_grant, permissions_of

__all__ = [
    "GeneratedKey",
    "Permission",
    "Principal",
    "Role",
    "issue_key",
    "make_key",
    "may_grant",
    "permissions_of",
    "prefix_of",
    "verify",
]
