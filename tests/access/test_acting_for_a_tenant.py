"""A route acts for the tenant that owns the resource."""

from __future__ import annotations

import pytest

from posthouse.errors import Forbidden
from posthouse.identity import Principal, Role
from posthouse.server import Access


def access(role, tenant):
    return Access(Principal(name="caller", role=role, tenant=tenant), gate=None, whose=tenant)


def test_a_super_admin_acts_for_any_tenant():
    every_tenant = access(Role.SUPER_ADMIN, None)
    assert every_tenant.of("acme").whose == "acme"
    assert every_tenant.whose is None


def test_others_act_for_their_own_alone():
    own = access(Role.TENANT_ADMIN, "acme")
    assert own.of("acme") == own
    with pytest.raises(Forbidden, match="cannot access tenant"):
        own.of("globex")
