"""A route that has found something acts for the tenant whose it is."""

from __future__ import annotations

import pytest

from posthouse.errors import Forbidden
from posthouse.identity import Principal, Role
from posthouse.server import Access


def access(role, tenant):
    return Access(Principal(name="somebody", role=role, tenant=tenant), gate=None, whose=tenant)


def test_a_super_admin_acts_for_any_tenant():
    everybody = access(Role.SUPER_ADMIN, None)
    assert everybody.of("acme").whose == "acme"
    assert everybody.whose is None


def test_others_act_for_their_own_alone():
    own = access(Role.TENANT_ADMIN, "acme")
    assert own.of("acme") == own
    with pytest.raises(Forbidden, match="belongs to another tenant"):
        own.of("globex")
