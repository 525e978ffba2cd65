"""A route acts for the tenant that owns the resource."""

from __future__ import annotations

import pytest

from posthouse.errors import Forbidden
from posthouse.identity import Principal, Role
from posthouse.server import Access


def access(role, tenant):
    return Access(Principal(name="caller", role=role, tenant=tenant), authenticator=None, tenant=tenant)


def test_a_super_admin_acts_for_any_tenant():
    every_tenant = access(Role.SUPER_ADMIN, None)
    assert every_tenant.for_tenant("acme").tenant == "acme"
    assert every_tenant.tenant is None


def test_others_act_for_their_own_alone():
    own = access(Role.TENANT_ADMIN, "acme")
    assert own.for_tenant("acme") == own
    with pytest.raises(Forbidden, match="cannot access tenant"):
        own.for_tenant("globex")
