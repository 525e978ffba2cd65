"""Slow connections, forged addresses, odd credentials, and shares of a tenant."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import jwt
import pytest

from posthouse import testing
from posthouse.settings import Settings
from support.hostile import HostileServer, answered

SECRET = "only-in-tests-" * 3
LOGIN = "/api/v1/session"


@pytest.fixture(scope="module")
def database(server):
    with testing.database(server) as url:
        yield url


@pytest.fixture(scope="module")
def short_timeout_server(database):
    """A server with short time limits."""
    settings = Settings(database_url=database, body_timeout_seconds=0.3, header_timeout_seconds=0.3)
    with HostileServer(settings) as hostile_server:
        yield hostile_server


@pytest.fixture(scope="module")
def limited(database):
    """A server with small shares."""
    settings = Settings(
        database_url=database,
        keys_per_tenant=4,
        max_streams_per_tenant=3,
        metrics_hosts="metrics.internal, other.internal",
    )
    with HostileServer(settings) as hostile_server:
        yield hostile_server


@pytest.mark.parametrize(
    ("role", "line"), [("anonymous", f"POST {LOGIN}"), ("tenant-admin", "POST /api/v1/jobs"),
                       ("worker", "POST /api/v1/worker/heartbeat")],
)  # fmt: skip
def test_a_body_that_does_not_arrive_is_answered_with_408(short_timeout_server, role, line):
    head = (f"{line} HTTP/1.1", "Content-Type: application/json", "Content-Length: 100")
    with short_timeout_server.raw(*head, body=b'{"a', role=role) as connection:
        status, problem = answered(connection)
        assert (status, problem["code"]) == (408, "body_too_slow")
        assert connection.recv(1) == b""


@pytest.mark.parametrize("lines", [["GET /health HTTP/1.1", "X-Slow: yes"], ["GET /hea"]])
def test_a_connection_without_complete_headers_is_closed(short_timeout_server, lines):
    with short_timeout_server.raw(*lines, end=b"") as connection:
        assert connection.recv(1) == b""


def test_a_connection_without_a_request_is_closed(short_timeout_server):
    address = urlsplit(short_timeout_server.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        assert connection.recv(1) == b""


def test_a_connection_between_two_requests_is_closed_too(short_timeout_server):
    with short_timeout_server.raw("GET /health HTTP/1.1") as connection:
        assert answered(connection)[0] == 200
        connection.sendall(b"GET /health HTTP/1.1\r\nX-Slow")
        assert connection.recv(1) == b""


def guesses(hostile_server, count):
    """The statuses of logins from ever new addresses, if one believes their headers."""
    client = hostile_server.client()
    return [
        client.post(LOGIN, json={"credential": "x"}, headers={"X-Forwarded-For": f"10.0.0.{n}"}).status_code
        for n in range(count)
    ]


def test_a_forged_address_does_not_evade_the_limit_of_logins(database):
    with HostileServer(Settings(database_url=database, auth_failures_per_minute=5)) as direct:
        assert guesses(direct, 8) == [401] * 5 + [429] * 3
    settings = Settings(
        database_url=database, auth_failures_per_minute=5, trusted_proxies="10.9.9.9, 127.0.0.0/8"
    )
    with HostileServer(settings) as behind_proxy:
        assert guesses(behind_proxy, 8) == [401] * 8


def token(*, role="tenant-admin", tenant_id="acme", **claims):
    of_app = {"role": role, "tenant_id": tenant_id}
    known = {"sub": "ann", "exp": 4_000_000_000, "aud": "authenticated", "app_metadata": of_app}
    return jwt.encode({**known, **claims}, SECRET)


def nested(text):
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


ODD = {
    "exp": token(exp=10**30),
    "exp in the year 10000": token(exp=253_402_300_800),
    "tenant with NUL": token(tenant_id="a\x00b"),
    "tenant with a surrogate": token(tenant_id="a\ud800b"),
    "tenant list": token(tenant_id=["acme"]),
    "role list": token(role=["tenant-admin"]),
    "subject with NUL": token(sub="a\x00b"),
    "long tenant": token(tenant_id="a" * 1000),
    "nested header": nested(b"[" * 6000 + b"]" * 6000) + ".e30.x",
    "long number": nested(b'{"alg":"HS256","x":' + b"9" * 6000 + b"}") + ".e30.x",
}


def test_an_odd_token_is_not_a_credential(database):
    settings = Settings(database_url=database, jwt_secret=SECRET, auth_failures_per_minute=0)
    with HostileServer(settings) as hostile_server:
        assert hostile_server.client(key=token()).get("/api/v1/jobs").status_code == 200
        for name, odd in ODD.items():
            assert hostile_server.client(key=odd).get("/api/v1/jobs").status_code == 401, name
            assert hostile_server.client().post(LOGIN, json={"credential": odd}).status_code == 401, name
            assert hostile_server.client().post(LOGIN, json={"credential": [odd]}).status_code == 422, name


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("10.1.2.3", 200),
        ("[::1]:8765", 200),
        ("localhost:8765", 200),
        ("metrics.internal:80", 200),
        ("OTHER.internal", 200),
        ("evil.example", 401),
        ("127.0.0.1.evil.example", 401),
        ("", 401),
    ],
)
def test_metrics_without_credentials_need_a_known_host(limited, host, status):
    assert limited.client(headers={"Host": host}).get("/metrics").status_code == status


def test_a_tenant_has_a_limited_number_of_keys(limited):
    admin = limited.client(key=limited.key("tenant-admin", "many"))
    new = {"name": "one of many", "role": "tenant-viewer"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: admin.post("/api/v1/admin/keys", json=new), range(8)))
    made = [answer.json() for answer in answers if answer.status_code == 201]
    assert len(made) == 3  # and the key of the admin
    refused = {answer.json()["code"] for answer in answers if answer.status_code != 201}
    assert refused == {"too_many_keys"}
    assert {answer.status_code for answer in answers} == {201, 409}
    assert admin.delete(f"/api/v1/admin/keys/{made[0]['prefix']}").status_code == 204
    assert admin.post("/api/v1/admin/keys", json=new).status_code == 201
    other = limited.client(key=limited.key("tenant-admin", "few"))
    assert other.post("/api/v1/admin/keys", json=new).status_code == 201


def test_a_tenant_has_a_share_of_the_event_streams(limited):
    first, second = (limited.client(key=limited.key("tenant-viewer", "streaming")) for _ in range(2))
    with contextlib.ExitStack() as stack:
        for client in (first, first, second):
            assert stack.enter_context(client.stream("GET", "/api/v1/stream")).status_code == 200
        refused = second.get("/api/v1/stream")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        assert "tenant 'streaming' has 3 open streams" in refused.json()["detail"]
        others = limited.client("tenant-viewer")
        assert stack.enter_context(others.stream("GET", "/api/v1/stream")).status_code == 200


def test_requests_are_limited_by_default_but_not_those_of_workers(database):
    settings = Settings(database_url=database)
    assert (settings.api_requests_per_second, settings.api_burst, settings.keys_per_tenant) == (100, 500, 100)
    with HostileServer(
        Settings(database_url=database, api_requests_per_second=0.001, api_burst=2)
    ) as hostile_server:
        viewer, worker = hostile_server.client("tenant-viewer"), hostile_server.client("worker")
        assert [viewer.get("/api/v1/jobs").status_code for _ in range(3)] == [200, 200, 429]
        assert [worker.get("/api/v1/session").status_code for _ in range(5)] == [200] * 5


def test_api_responses_are_neither_sniffed_nor_cached(limited):
    viewer = limited.client("tenant-viewer")
    for path in ("/health", "/api/v1/jobs", "/api/v1/session", "/api/v1/none", "/api/v1/openapi.json"):
        headers = viewer.get(path).headers
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store"), path
    job = limited.client("tenant-admin").post("/api/v1/jobs", json={"definition_key": "noop"})
    assert (job.headers["x-content-type-options"], job.headers["cache-control"]) == ("nosniff", "no-store")
    page = limited.client().get("/console/").text
    asset = next(part for part in page.split('"') if part.endswith(".js"))
    assert "immutable" in limited.client().get(asset).headers["cache-control"]
    assert json.loads(job.text)["status"] == "queued"
