"""Logins of the console: a cookie that no script reads, and changes that no other site can make."""

from __future__ import annotations

import pytest

from posthouse.identity import prefix_of
from posthouse.identity.credentials import csrf_token
from posthouse.settings import Settings
from support.identity import problem
from support.server import ServerThread

SESSION, JOBS = "/api/v1/session", "/api/v1/jobs"


@pytest.fixture
def console(api_server):
    """A browser that has logged in, and what it was told."""
    key = api_server.key("tenant-admin", "acme")
    client = api_server.client()
    answer = client.post(SESSION, json={"credential": key})
    assert answer.status_code == 201, answer.text
    client.key, client.login, client.cookie_line = key, answer.json(), answer.headers["set-cookie"]
    return client


def headers(console, **changes):
    own = {
        "Origin": str(console.base_url).rstrip("/"),
        "X-CSRF-Token": console.login["csrf_token"],
        **changes,
    }
    return {name: value for name, value in own.items() if value is not None}


def test_a_login_returns_its_principal_and_can_read(api_server, console):
    assert (console.login["role"], console.login["tenant_id"]) == ("tenant-admin", "acme")
    assert "jobs:write" in console.login["permissions"]
    assert "tenants:write" not in console.login["permissions"]
    assert console.get(SESSION).json() == console.login
    assert console.get(JOBS).status_code == 200
    line = console.cookie_line.lower()
    assert "httponly" in line
    assert "samesite=lax" in line
    assert "secure" not in line  # over plain http a browser would not send it back
    proxied = api_server.client(headers={"X-Forwarded-Proto": "https"})
    answer = proxied.post(SESSION, json={"credential": console.key})
    assert "secure" not in answer.headers["set-cookie"].lower()  # not a trusted proxy


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({"trusted_proxies": "127.0.0.1"}, {"X-Forwarded-Proto": "https"}),
        ({"public_url": "https://a.example"}, {}),
    ],
)
def test_the_cookie_of_an_encrypted_connection_is_secure(api_server, console, settings, headers):
    with ServerThread(Settings(database_url=api_server.database, **settings)) as other:
        answer = other.client(headers=headers).post(SESSION, json={"credential": console.key})
    assert "secure" in answer.headers["set-cookie"].lower()


def test_the_cookie_is_stored_as_a_hash_only(api_server, console):
    with api_server.connect() as db:
        stored = str(db.execute("select to_jsonb(s)::text from posthouse.sessions as s").fetchall())
    assert console.cookies["posthouse_session"] not in stored
    assert console.key not in stored


FORGED = {
    "from another site": {"Origin": "https://evil.example"},
    "from nowhere": {"Origin": None},
    "from a page without an origin": {"Origin": "null"},
    "from a site with our name in it": {"Origin": "http://127.0.0.1.evil.example"},
    "without the token": {"X-CSRF-Token": None},
    "with a made-up token": {"X-CSRF-Token": "0" * 64},
    "with the token of another login": {"X-CSRF-Token": csrf_token("another")},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_a_change_is_refused_that_comes(console, changes):
    job = {"definition_key": "sync"}
    assert problem(console.post(JOBS, json=job, headers=headers(console, **changes))) == (403, "forbidden")
    assert console.post(JOBS, json=job, headers=headers(console)).status_code == 201


def test_a_login_ends_when_one_logs_out(console):
    cookies = dict(console.cookies)
    assert problem(console.delete(SESSION)) == (403, "forbidden")
    assert console.delete(SESSION, headers=headers(console)).status_code == 204
    assert "posthouse_session" not in console.cookies
    console.cookies.update(cookies)
    assert problem(console.get(JOBS)) == (401, "not_authenticated")


def test_a_login_ends_with_its_key(api_server, console):
    with api_server.connect() as db:
        db.execute("select posthouse.revoke_key(%s)", (prefix_of(console.key),))
    assert problem(console.get(JOBS)) == (401, "not_authenticated")


def test_a_login_ends_in_time(api_server, console):
    with api_server.connect() as db:
        db.execute("update posthouse.sessions set expires_at = posthouse.now()")
    assert problem(console.get(JOBS)) == (401, "not_authenticated")


@pytest.mark.parametrize("role", ["worker", "event-emitter"])
def test_machines_do_not_log_in(api_server, role):
    key = api_server.key(role, None if role == "worker" else "acme")
    assert problem(api_server.client().post(SESSION, json={"credential": key})) == (403, "forbidden")


def test_a_login_with_a_wrong_credential_is_rejected(api_server):
    client = api_server.client()
    assert problem(client.post(SESSION, json={"credential": "nonsense"})) == (401, "not_authenticated")
    assert problem(client.post(SESSION)) == (401, "not_authenticated")
    assert "posthouse_session" not in client.cookies
    client.cookies.set("posthouse_session", "made-up")
    assert problem(client.get(JOBS)) == (401, "not_authenticated")
