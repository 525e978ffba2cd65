"""The OpenAPI document: what FastAPI generates, completed with what applies to all routes.

The first line of a route's docstring becomes the summary of the operation, the rest its description.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from posthouse.server.http.field_descriptions import describe_fields, describe_parameters
from posthouse.server.http.field_names import rename_schemas
from posthouse.server.http.problems import MEDIA_TYPE

PREFIX = "/api/v1"
_ABOUT = """The HTTP API of Posthouse, a durable job platform for Python in Postgres.

Send credentials in the `Authorization: Bearer <key>` header. Errors are `application/problem+json` with a
stable `code`. Each response has an `X-Request-Id` header: the one you sent, or a generated one. Lists have a
`next_cursor` while there are more items. Times are ISO 8601; times without a zone are UTC."""

_TAGS = {
    "jobs": "Enqueue, find, cancel and retry jobs.",
    "artifacts": "Files that jobs store.",
    "events": "Emit events, which triggers turn into jobs.",
    "triggers": "Create jobs on events or schedules.",
    "definitions": "Kinds of jobs and their settings.",
    "failures": "Failed attempts grouped by error, and bulk retries.",
    "queues": "Queues: counts, pause and resume.",
    "limits": "Limits of concurrency and rate.",
    "workers": "Workers as tenants and operators see them.",
    "monitoring": "Overview, statistics, alerts, audit log, retention, doctor and settings.",
    "apps": "Applications of this server and their demos.",
    "tenants": "Tenants: worker share and retention.",
    "keys": "API keys.",
    "session": "Console sessions and the identity of the caller.",
    "stream": "Live changes as Server-Sent Events.",
    "worker": "The API of remote workers.",
    "worker (simple)": "A simpler API for remote workers: one job at a time, no tokens to store.",
    "health": "Health checks for load balancers and monitoring.",
    "metrics": "Metrics in the Prometheus text format.",
}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "An error response (RFC 9457). `code` is stable; `detail` is a message for humans.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "description": "Always `about:blank`."},
        "title": {"type": "string", "description": "The code as words."},
        "status": {"type": "integer", "description": "HTTP status code."},
        "code": {"type": "string", "description": "Stable error code for programs."},
        "detail": {"type": "string", "description": "What happened, why, and what to do."},
        "errors": {
            "type": "array",
            "description": "Validation errors, one per invalid field.",
            "items": {
                "type": "object",
                "required": ["where", "message"],
                "properties": {
                    "where": {"type": "string", "description": "Path of the field, such as `body.queue`."},
                    "message": {"type": "string", "description": "Why the value is invalid."},
                },
            },
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "job not found",
            "status": 404,
            "code": "job_not_found",
            "detail": "job 01890a5d-ac96-774b-bcce-b302099a8057 does not exist",
        }
    ],
}
_ALWAYS = {
    "401": "Missing or invalid credentials",
    "403": "Permission denied",
    "422": "Invalid request; see `detail` and `errors`",
    "429": "Rate limit exceeded; retry after `Retry-After` seconds",
    "503": "The database is unavailable or timed out; retry later",
}
_WRITING = {
    "409": "Conflict with the current state of the resource",
    "413": "The request body or a payload is too large",
}


_SELF_DOCUMENTED = {"/health", "/ready", "/metrics", "/api/health", "/api/worker/health"}
"""Paths whose routes document all of their responses."""


def operation_id(route: APIRoute) -> str:
    """Return the name of the function, with the tag appended if it is a verb alone: cancel_jobs."""
    return route.name if "_" in route.name or not route.tags else _identifier(route.name, route.tags[0])


def application_operation_id(route: APIRoute) -> str:
    """Return the name of the function after the tag of the application, which keeps the ids unique."""
    return _identifier(*route.tags[:1], route.name)


def _identifier(*parts: object) -> str:
    return re.sub(r"\W+", "_", " ".join(map(str, parts))).strip("_")


def describe(app: FastAPI, public: set[tuple[str, str]], own: set[str]) -> Callable[[], dict[str, Any]]:
    """Return the function for app.openapi.

    ``public``: methods and paths that need no credential. ``own``: the built-in paths.
    """

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes, description=_ABOUT)
            app.openapi_schema = _completed(found, public, own)
        return app.openapi_schema

    return document


def _completed(document: dict[str, Any], public: set[tuple[str, str]], own: set[str]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key or a JSON Web Token."}
    }
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    used = _used_schemas(schemas, [item for path, item in document["paths"].items() if path in own])
    shown = {name: schemas[name] for name in used}
    rename_schemas(shown)
    describe_fields(shown)
    document["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _split_docstring(operation)
            if path in own:
                describe_parameters(operation.get("parameters", []))
            if (method.upper(), path) not in public:
                operation["security"] = [{"key": []}]
            if path not in _SELF_DOCUMENTED:
                _add_errors(path, method, operation)
    return document


def _used_schemas(schemas: dict[str, Any], parts: list[Any]) -> set[str]:
    """Return the names of the schemas that these parts of the document refer to."""
    found: set[str] = set()
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                parts.append(schemas.get(name))
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return found & schemas.keys()


def _split_docstring(operation: dict[str, Any]) -> None:
    """Use the first line of the docstring as summary instead of the name of the function."""
    summary, _, rest = operation.pop("description", operation["summary"]).partition("\n")
    operation["summary"] = summary.removesuffix(".")
    if rest.strip():
        operation["description"] = rest.strip()


def _add_errors(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    of_workers = "/worker/" in path  # their requests name a lease token and a worker id
    texts = {**_ALWAYS, **(_WRITING if method != "get" or of_workers else {})}
    if "{" in path or of_workers:
        texts["404"] = "Not found, or owned by another tenant"
    if method == "patch":
        texts["412"] = "Version conflict: the resource was changed since the version in If-Match"
    for status, text in texts.items():
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[status] = {"description": text, "content": content}
    if method == "get" and path.endswith("}"):
        responses["304"] = {"description": "Not modified (If-None-Match)"}
    operation["responses"] = dict(sorted(responses.items()))
