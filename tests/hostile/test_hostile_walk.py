"""Every operation of the OpenAPI document, in every role, with bodies that no client should send.

One walk sends each operation a third of the bodies in each role, and never the same third in the next
operation or role. The walks that send the other two thirds take too long for ``make test``.
"""

from __future__ import annotations

import json
from http.client import HTTPConnection
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from posthouse import testing
from posthouse.settings import Settings
from support.hostile import ROLES, HostileServer

PUBLIC = {"/health", "/ready", "/api/health", "/api/worker/health", "/metrics", "/api/v1/openapi.json"}
JSON = {"Content-Type": "application/json"}
MAX_ERROR_CHARS = 20_000
SHARES = 3
NUL = "a\x00b"
WITH_BODY = {"post", "put", "patch", "delete"}
BODIES = {
    "empty": b"",
    "no JSON": b"{",
    "object": b"{}",
    "list": b"[1, 2]",
    "text": b'"x"',
    "number": b"1e400",
    "NaN": b'{"payload": NaN}',
    "null": b"null",
    "no UTF-8": b'{"name": "\xff\xfe"}',
    "lone surrogate": b'{"name": "\\ud800", "definition_key": "\\udfff"}',
    "nested lists": b"[" * 20_000 + b"]" * 20_000,
    "nested objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "long number": b'{"priority": ' + b"9" * 5_000 + b"}",
    "many keys": json.dumps({f"k{n}": n for n in range(50_000)}).encode(),
    "100,000 keys": b"{" + b",".join(b'"%d":0' % n for n in range(101_000)) + b"}",
}
WRONG = {
    "lists": [NUL],
    "objects": {"a": {"b": [None]}},
    "texts": "x",
    "NUL": NUL,
    "numbers": -(2**70),
    "floats": 1e308,
    "booleans": True,
    "nulls": None,
    "long texts": "x" * 20_000,
    "list of lists": [[[]], [{}]],
}
QUERIES = [
    "",
    "?limit=-1&offset=999999999999999999999&cursor=%FF%FE&q=((((&job=x&tenant=%ED%A0%80",
    "?q=a%00b",
]


@pytest.fixture(scope="module")
def hostile_server(server):
    with testing.database(server) as url:
        settings = Settings(database_url=url, api_requests_per_second=0, auth_failures_per_minute=0)
        with HostileServer(settings) as hostile_server:
            yield hostile_server


@pytest.fixture(scope="module")
def document(hostile_server):
    return hostile_server.client().get("/api/v1/openapi.json").json()


def operations(document):
    """Method, path with values for its parameters, and names of the fields of its body."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in {"get", "head", *WITH_BODY}:
                url = path
                for item in operation.get("parameters", ()):
                    if item["in"] == "path":
                        url = url.replace(f"{{{item['name']}}}", str(uuid4()))
                yield method, path, url, fields_of(document, operation)


def fields_of(document, operation):
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    for option in (schema, *schema.get("anyOf", ())):
        name = option.get("$ref", "").rpartition("/")[2]
        if name:
            return list(document["components"]["schemas"][name].get("properties", ()))
    return []


class Walker:
    """Sends requests in one role. http.client, because httpx takes twice the time for each request."""

    def __init__(self, hostile_server, role):
        key = hostile_server.keys.get(role)
        self.role = role
        self._headers = {**JSON, **({"Authorization": f"Bearer {key}"} if key else {})}
        self._connection = HTTPConnection(urlsplit(hostile_server.url).netloc, timeout=60)

    def close(self):
        self._connection.close()

    def send(self, method, path, body=None):
        """Return the response; its body is not read yet."""
        self._connection.request(method.upper(), path, body=body, headers=self._headers)
        return self._connection.getresponse()

    def check(self, method, path, url, body, what):
        answer = self.send(method, url, body)
        about = (self.role, method, path, what, answer.status)
        if answer.status < 400:
            assert self.role != "anonymous" or path in PUBLIC, about
            if method == "get":
                self.close()  # an event stream has no end
            answer.read()
            return
        assert answer.status < 500 or path == "/api/health", about
        content = answer.read()
        assert answer.headers["content-type"] == "application/problem+json", about
        assert len(content) < MAX_ERROR_CHARS, about
        if self.role == "anonymous" and path != "/api/v1/session":
            assert answer.status in {401, 405, 422}, about


@pytest.fixture
def walker(hostile_server, role):
    walker = Walker(hostile_server, role)
    yield walker
    assert walker.send("get", "/health").status == 200
    walker.close()


SHARED = pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, SHARES))]
)


def bodies_of(names):
    """Description and content of each body for an operation with these fields."""
    if not names:
        return [("object", b"{}")]
    wrong = ((what, json.dumps(dict.fromkeys(names, value)).encode()) for what, value in WRONG.items())
    return [*BODIES.items(), *wrong]


@SHARED
@pytest.mark.parametrize("role", ROLES)
def test_no_body_of_any_operation_breaks_the_server(walker, document, role, share):
    first = share + list(ROLES).index(role)
    for number, (method, path, url, names) in enumerate(operations(document)):
        if method in WITH_BODY:
            bodies = bodies_of(names)
            for what, body in bodies[(first + number) % SHARES :: SHARES] if names else bodies:
                walker.check(method, path, url, body, what)


@pytest.mark.parametrize("role", ROLES)
def test_no_query_of_any_operation_breaks_the_server(walker, document):
    for method, path, url, _ in operations(document):
        for query in QUERIES if method == "get" else ():
            walker.check(method, path, url + query, None, query)


@SHARED
@pytest.mark.parametrize("role", ["tenant-admin", "worker", "super-admin"])
def test_no_single_wrong_field_breaks_the_server(walker, document, share):
    """One field at a time, so that each one is reached where the others are valid or missing."""
    for method, path, url, names in operations(document):
        for number, name in enumerate(names if method in WITH_BODY else ()):
            for what in ("lists", "objects", "NUL")[(share + number) % SHARES :: SHARES]:
                body = json.dumps({name: WRONG[what]}).encode()
                walker.check(method, path, url, body, (name, what))
