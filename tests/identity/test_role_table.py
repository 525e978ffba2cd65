"""Every route, called with every role and without credentials: the table of roles decides.

A route states its permission, so that this also holds for new routes.
"""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from fastapi import APIRouter, FastAPI

from posthouse.console.assets import assets
from posthouse.errors import ConfigurationError
from posthouse.identity import Permission, Role, permissions_of
from posthouse.server import create_app
from posthouse.server.app import check_permissions, permissions_for, routes_of
from posthouse.settings import Settings
from support.identity import problem

PUBLIC = {
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/api/health"),  # says more to some
    ("GET", "/api/worker/health"),  # likewise
    ("GET", "/metrics"),  # decides for itself: see test_metrics
    ("GET", "/api/v1/openapi.json"),
    ("POST", "/api/v1/session"),
    ("GET", "/"),  # the console: a page without data, which asks the API for them
    ("GET", "/apps"),  # the list of applications: likewise
    ("GET", "/apps/"),
    ("GET", "/apps/assets/{version}/{path:path}"),
    ("GET", "/console"),
    ("GET", "/console/{path:path}"),
    ("GET", "/console/assets/{version}/{path:path}"),
}
"""Public routes. Each is a decision: a new one is added here by hand."""
MAY = {
    Role.SUPER_ADMIN: set(Permission) - {Permission.WORK},
    Role.TENANT_ADMIN: {
        "self:read", "jobs:read", "jobs:write", "jobs:erase", "triggers:read", "triggers:write",
        "events:read", "events:emit", "definitions:read", "workers:read", "keys:read", "keys:write",
        "audit:read",
    },
    Role.TENANT_VIEWER: {
        "self:read", "jobs:read", "triggers:read", "events:read", "definitions:read", "workers:read",
    },
    Role.EVENT_EMITTER: {"self:read", "events:emit"},
    Role.WORKER: {"self:read", "worker:work"},
}  # fmt: skip
TENANT = {Role.SUPER_ADMIN: None, Role.WORKER: None}


def routes():
    """(method, path, permissions) of every route there is."""
    return [
        (method, route.path, permissions_for(route))
        for route in routes_of(create_app(Settings(database_url="postgresql://nowhere")))
        for method in sorted(route.methods - {"HEAD", "OPTIONS"})
    ]


def address(path):
    """With ids that exist nowhere."""
    path = path.replace("{version}/{path:path}", f"{assets().version}/page.html")
    return re.sub(r"\{[^}]*\}", lambda _: str(uuid4()), path)


def _named(value):
    return value if isinstance(value, str) else " or ".join(sorted(value)) or "public"


@pytest.fixture(scope="module")
def clients(api_server):
    return {role: api_server.client_for(role, TENANT.get(role, "acme")) for role in Role}


def test_the_table_of_roles_is_this_one():
    assert {role: set(permissions_of(role)) for role in Role} == MAY


def test_every_route_states_a_permission_or_is_public_on_purpose():
    unstated = {(method, path) for method, path, permissions in routes() if not permissions}
    assert unstated == PUBLIC
    assert len(routes()) > 10


def test_an_application_with_an_undeclared_route_does_not_start():
    app, router = FastAPI(docs_url=None, redoc_url=None), APIRouter()
    router.add_api_route("/api/v1/secrets", lambda: "all of them")
    app.include_router(router)
    with pytest.raises(ConfigurationError, match="/api/v1/secrets"):
        check_permissions(app)


@pytest.mark.parametrize(("method", "path", "permissions"), routes(), ids=_named)
def test_a_route_is_open_to_those_roles_and_to_no_others(api_server, clients, method, path, permissions):
    where = address(path)
    if path.startswith("/apps/assets/"):
        where = re.search(r"/apps/assets/\w+/main\.js", api_server.client().get("/apps/").text)[0]
    if not permissions:
        assert ask(api_server.client(), method, where)[0] not in {403, 404}
        return
    assert ask(api_server.client(), method, where) == (401, "not_authenticated")
    assert ask(api_server.client("ph_aaaaaaaa_" + "x" * 43), method, where)[0] in {401, 429}
    for role, client in clients.items():
        answer = ask(client, method, where)
        if permissions & MAY[role]:
            assert answer[0] not in {401, 403}, role
        else:
            assert answer == (403, "forbidden"), role


def ask(client, method, where):
    """The status, and the code of an error. Of what goes on and on only the beginning is read."""
    with client.stream(method, where, timeout=30) as answer:
        if answer.headers.get("content-type") != "application/problem+json":
            return answer.status_code, None
        answer.read()
        return problem(answer)
