"""posthouse keys and posthouse tenants."""

from __future__ import annotations


def test_keys_are_made_listed_and_revoked(posthouse):
    made = posthouse("keys", "create", "ci", "--tenant", "acme", "--expires", "90d", "--json").json
    assert (made["role"], made["tenant_id"]) == ("tenant-admin", "acme")
    assert made["expires_at"] is not None
    prefix = made["key"].split("_")[1]
    [listed] = posthouse("keys", "list", "--tenant", "acme", "--json").json
    assert (listed["prefix"], listed["name"], listed["revoked_at"]) == (prefix, "ci", None)
    shown = posthouse("keys", "list").out
    assert "valid for 90 d" in shown
    assert "never" in shown
    assert prefix in posthouse("keys", "revoke", prefix).out
    assert "revoked" in posthouse("keys", "list").out
    unknown = posthouse("keys", "revoke", "nonsense")
    assert (unknown.code != 0, "key nonsense does not exist" in unknown.err) == (True, True)


WRONG = {
    "unknown role 'emperor'": ["--role", "emperor"],
    "cannot have a tenant": ["--role", "super-admin", "--tenant", "acme"],
    "duration": ["--tenant", "acme", "--expires", "soon"],
    "in the future": ["--tenant", "acme", "--expires", "0s"],
}


def test_a_key_that_makes_no_sense_is_wrong_usage(posthouse):
    for said, arguments in WRONG.items():
        answer = posthouse("keys", "create", "x", *arguments)
        assert (answer.code, said in answer.err) == (2, True), answer


def test_tenants_are_created_named_and_deleted(posthouse):
    made = posthouse("tenants", "create", "acme", "--label", "Acme", "--weight", "2", "--json").json
    assert made == {"id": "acme", "label": "Acme", "weight": 2.0}
    assert "already" in posthouse("tenants", "create", "acme").err
    posthouse("tenants", "label", "acme", "Acme Ltd")
    [listed] = posthouse("tenants", "list", "--json").json
    assert (listed["label"], listed["weight"]) == ("Acme Ltd", 2)
    job = posthouse("enqueue", "sync", "--tenant", "acme", "--json").json
    refused = posthouse("tenants", "delete", "acme")
    assert (refused.code != 0, "unfinished jobs" in refused.err) == (True, True)
    posthouse("jobs", "cancel", job["id"])
    assert posthouse("tenants", "delete", "acme", "--json").json == {"id": "acme", "deleted": True}
    assert posthouse("tenants", "list", "--json").json == []
    assert posthouse("tenants", "create", "two words").code == 2
