"""Every operation of the OpenAPI document, in every role, with bodies that no client should send."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from hostilekit import ROLES, served

from posthouse import testing
from posthouse.settings import Settings

PUBLIC = {"/health", "/ready", "/api/health", "/api/worker/health", "/metrics", "/api/v1/openapi.json"}
JSON = {"Content-Type": "application/json"}
LONGEST_ERROR = 20_000
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
def site(server):
    with testing.database(server) as url:
        settings = Settings(database_url=url, api_rate=0, auth_failures=0)
        with served(settings) as site:
            yield site


@pytest.fixture(scope="module")
def document(site):
    return site.client().get("/api/v1/openapi.json").json()


def operations(document):
    """Method, path with values for its parameters, and names of the fields of its body."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in {"get", "head", *WITH_BODY}:
                filled = path
                for item in operation.get("parameters", ()):
                    if item["in"] == "path":
                        filled = filled.replace(f"{{{item['name']}}}", str(uuid4()))
                yield method, path, filled, fields_of(document, operation)


def fields_of(document, operation):
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    for option in (schema, *schema.get("anyOf", ())):
        name = option.get("$ref", "").rpartition("/")[2]
        if name:
            return list(document["components"]["schemas"][name].get("properties", ()))
    return []


def check(role, path, answer, what):
    about = (role, answer.request.method, path, what, answer.status_code)
    if answer.status_code < 400:
        assert role != "anonymous" or path in PUBLIC, about
        return
    assert answer.status_code < 500 or path == "/api/health", about
    answer.read()
    assert answer.headers["content-type"] == "application/problem+json", about
    assert len(answer.content) < LONGEST_ERROR, about
    if role == "anonymous" and path != "/api/v1/session":
        assert answer.status_code in {401, 405, 422}, about


@pytest.mark.parametrize("role", ROLES)
def test_no_body_of_any_operation_breaks_the_server(site, document, role):
    client = site.client(role)
    for method, path, filled, names in operations(document):
        if method not in WITH_BODY:
            continue
        bodies = BODIES if names else {"object": b"{}"}
        for what, body in bodies.items():
            check(role, path, client.request(method, filled, content=body, headers=JSON), what)
        for what, value in WRONG.items() if names else ():
            body = json.dumps(dict.fromkeys(names, value)).encode()
            check(role, path, client.request(method, filled, content=body, headers=JSON), what)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("role", ROLES)
def test_no_query_of_any_operation_breaks_the_server(site, document, role):
    client = site.client(role)
    for method, path, filled, _ in operations(document):
        for query in QUERIES:
            if method == "get":
                with client.stream("GET", filled + query) as answer:
                    check(role, path, answer, query)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("role", ["tenant-admin", "worker", "super-admin"])
def test_no_single_wrong_field_breaks_the_server(site, document, role):
    """One field at a time, so that each one is reached where the others are valid or missing."""
    client = site.client(role)
    for method, path, filled, names in operations(document):
        if method in WITH_BODY:
            for name in names:
                for what in ("lists", "objects", "NUL"):
                    body = json.dumps({name: WRONG[what]}).encode()
                    check(
                        role, path, client.request(method, filled, content=body, headers=JSON), (name, what)
                    )
