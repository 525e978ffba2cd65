"""Who somebody is and what they may do: roles, principals, keys, tokens, logins.

What needs the extra `server` (credentials, tokens) is imported from its own module.
"""

from posthouse.identity.issuing import issue_key
from posthouse.identity.keys import MadeKey, make_key, prefix_of, verify
from posthouse.identity.principal import Principal
from posthouse.identity.roles import Permission, Role, may_grant, permissions_of

__all__ = [
    "MadeKey",
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
