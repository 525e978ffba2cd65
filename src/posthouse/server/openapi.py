"""The OpenAPI document: what FastAPI knows of the routes, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from posthouse.server.problems import MEDIA_TYPE

PREFIX = "/api/v1"
_ABOUT = """Jobs, triggers, events and what belongs to them.

Credentials go into `Authorization: Bearer <key>`. Every error is a problem (`application/problem+json`) with
a stable `code`. Every answer has an `X-Request-Id`: yours, if you sent one. Lists have a `next_cursor` while
there is more.
Times are ISO 8601; those without a zone are UTC."""

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong (RFC 9457). `code` is stable, `detail` is for people.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "message"],
                "properties": {"where": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "job not found",
            "status": 404,
            "code": "job_not_found",
            "detail": "there is no job 01890a5d-ac96-774b-bcce-b302099a8057",
        }
    ],
}
_ALWAYS = {
    "401": "No credential, or none that is good",
    "403": "The credential does not allow this",
    "422": "The request is wrong: `detail` says how",
    "429": "Too many requests",
    "503": "The database cannot be reached, or took too long",
}
_WRITING = {"409": "What is there does not allow it", "413": "The body, or a payload in it, is too large"}


def operation_id(route: APIRoute) -> str:
    """The name of its function, and of the resource if that is a verb alone: cancel_jobs, find_keys."""
    return route.name if "_" in route.name or not route.tags else f"{route.name}_{route.tags[0]}"


def describe(app: FastAPI, public: set[tuple[str, str]]) -> Callable[[], dict[str, Any]]:
    """What app.openapi is to be; ``public``: methods and paths that ask for no credential."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes, description=_ABOUT)
            app.openapi_schema = _completed(found, public)
        return app.openapi_schema

    return document


def _completed(document: dict[str, Any], public: set[tuple[str, str]]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key, or a JSON Web Token."}
    }
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if (method.upper(), path) not in public:
                operation["security"] = [{"key": []}]
            if path.startswith("/api/") and path != "/api/health":  # which says for itself what it answers
                _add_errors(path, method, operation)
    return document


def _add_errors(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    of_workers = "/worker/" in path  # which show the token of a lease, and the worker's id
    told = {**_ALWAYS, **(_WRITING if method != "get" or of_workers else {})}
    if "{" in path or of_workers:
        told["404"] = "There is none, or it belongs to another tenant"
    if method == "patch":
        told["412"] = "It has changed since it was looked at (If-Match)"
    for status, text in told.items():
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[status] = {"description": text, "content": content}
    if method == "get" and path.endswith("}"):
        responses["304"] = {"description": "It is what you have already (If-None-Match)"}
    operation["responses"] = dict(sorted(responses.items()))
