"""Responses to all errors: application/problem+json, with the stable code of the error class."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from itertools import islice
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException

from posthouse import errors
from posthouse.core.redaction import mask_text

_log = logging.getLogger("posthouse.server")

_STATUS: dict[type[errors.PosthouseError], int] = {
    errors.PosthouseError: 500,
    errors.ConfigurationError: 422,
    errors.DatabaseUnavailable: 503,
    errors.SchemaError: 503,
    errors.InvalidJob: 422,
    errors.PayloadTooLarge: 413,
    errors.InactiveDefinition: 409,
    errors.UnknownDefinition: 422,
    errors.InvalidDefinition: 422,
    errors.DefinitionExists: 409,
    errors.InvalidLimit: 422,
    errors.InvalidTrigger: 422,
    errors.InvalidEvent: 422,
    errors.InvalidAlert: 422,
    errors.TemplateError: 422,
    errors.InvalidBulkChange: 422,
    errors.InvalidKey: 422,
    errors.TooManyKeys: 409,
    errors.InvalidReport: 422,
    errors.InvalidResult: 422,
    errors.InvalidRequest: 422,
    errors.EditConflict: 412,
    errors.TooManyStreams: 429,
    errors.StreamLimitReached: 503,
    errors.InvalidArtifact: 422,
    errors.ArtifactTooLarge: 413,
    errors.WrongOffset: 409,
    errors.ArtifactNotFound: 404,
    errors.ServerUnavailable: 503,
    errors.StorageUnavailable: 503,
    errors.RequestRejected: 422,
    errors.DatabaseRequired: 500,
    errors.NotAuthenticated: 401,
    errors.Forbidden: 403,
    errors.JobNotFound: 404,
    errors.DefinitionNotFound: 404,
    errors.LimitNotFound: 404,
    errors.WorkerNotFound: 404,
    errors.TriggerNotFound: 404,
    errors.EventNotFound: 404,
    errors.FailureNotFound: 404,
    errors.BulkChangeNotFound: 404,
    errors.ErasureNotFound: 404,
    errors.KeyNotFound: 404,
    errors.TenantNotFound: 404,
    errors.TenantExists: 409,
    errors.TenantActive: 409,
    errors.InvalidTenant: 422,
    errors.TooManyRequests: 429,
    errors.DuplicateJob: 409,
    errors.IllegalTransition: 409,
    errors.LeaseLost: 409,
    errors.WaitTimeout: 408,
}
_FIXED = (errors.NotAuthenticated, errors.Forbidden, errors.TooManyRequests)
"""Errors whose messages contain no value of a job or a credential.

They consist of fixed words, and names of principals, tenants and permissions. Redaction would only damage
them (`Authorization: [redacted]`).
"""
MAX_ERRORS = 20
MAX_PATH_LENGTH = 200
MEDIA_TYPE = "application/problem+json"
DATABASE_UNAVAILABLE = "cannot connect to Postgres; retry later"
UNSTORABLE = (
    "a value of the request cannot be stored: it contains a NUL character or invalid text, or a number is "
    "out of range"
)
_UNSTORABLE = (
    psycopg.errors.NumericValueOutOfRange,
    psycopg.errors.CharacterNotInRepertoire,
    psycopg.errors.UntranslatableCharacter,
)
"""Errors of values that passed validation. psycopg raises a plain DataError for NUL characters."""
_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "5"}, 503: {"Retry-After": "5"}}


class Rejected(HTTPException):
    """An error that is raised while a body is read. FastAPI passes it on unchanged."""

    def __init__(self, error: Exception) -> None:
        super().__init__(500)
        self.error = error


def status_of(error: errors.PosthouseError) -> int:
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def problem(status: int, code: str, detail: str, *, fixed: bool = False, **more: Any) -> JSONResponse:
    """Return an error response. ``fixed``: the detail contains no values that could be secrets."""
    headers = _HEADERS.get(status)
    content = {"type": "about:blank", "title": code.replace("_", " "), "status": status, "code": code}
    return JSONResponse(
        {**content, "detail": detail if fixed else mask_text(detail), **more},
        status_code=status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def install(app: FastAPI) -> None:
    for kind, handle in _HANDLERS.items():
        app.add_exception_handler(kind, handle)


async def of(error: Exception) -> JSONResponse:
    """Return the response to an error raised outside of routes."""
    handle = next(_HANDLERS[kind] for kind in type(error).__mro__ if kind in _HANDLERS)
    response: JSONResponse = await handle(None, error)
    return response


async def _handle_ours(_: Request | None, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.PosthouseError)
    if isinstance(error, errors.DatabaseUnavailable):  # its text contains the address of the database
        return problem(503, error.code, DATABASE_UNAVAILABLE)
    more = (
        {"at": error.at, "to": error.to, "suggestion": error.suggestion}
        if isinstance(error, errors.InvalidFilter)
        else {}
    )
    answer = problem(status_of(error), error.code, str(error), fixed=isinstance(error, _FIXED), **more)
    if isinstance(error, errors.TooManyRequests):
        answer.headers["Retry-After"] = str(math.ceil(error.seconds))
    return answer


async def _handle_invalid_request(_: Request | None, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [
        {"where": ".".join(str(step) for step in item["loc"]), "message": _message(item)}
        for item in islice(error.errors(), MAX_ERRORS)
    ]
    detail = "; ".join(f"{item['where']}: {item['message']}" for item in found)
    return problem(422, errors.InvalidRequest.code, detail, errors=found)


def _message(item: dict[str, Any]) -> str:
    """Return the message of a validation error. FastAPI leaves a body unparsed if its type is not JSON."""
    if item["loc"] == ("body",) and isinstance(item.get("input"), bytes):
        return "not JSON; send a JSON document with the header `Content-Type: application/json`"
    return str(item["msg"])


async def _handle_http_exception(request: Request | None, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error, Rejected):
        return await of(error.error)
    detail = str(error.detail)
    if request is not None and detail == HTTPStatus(error.status_code).phrase:
        detail = _about_route(request, error.status_code) or detail
    answer = problem(error.status_code, _CODES.get(error.status_code, "http_error"), detail)
    answer.headers.update(error.headers or {})
    return answer


def _about_route(request: Request, status: int) -> str | None:
    """Return what is wrong with the path or method of a request that no route serves."""
    path = request.url.path[:MAX_PATH_LENGTH]
    if status == HTTPStatus.NOT_FOUND:
        return f"{path} does not exist on this server; check the path"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.method} is not allowed for {path}"
    return None


async def _handle_database_error(_: Request | None, error: Exception) -> JSONResponse:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return problem(
            503, "took_too_long", "the database statement timed out; narrow the filter or request fewer rows"
        )
    if isinstance(error, psycopg.OperationalError):
        return problem(503, errors.DatabaseUnavailable.code, DATABASE_UNAVAILABLE)
    if isinstance(error, _UNSTORABLE) or type(error) is psycopg.DataError:
        _log.warning("request rejected: the database cannot store a value error=%s", type(error).__name__)
        return problem(422, errors.InvalidRequest.code, UNSTORABLE, fixed=True)
    return _hidden(error)


async def _handle_unexpected(_: Request | None, error: Exception) -> JSONResponse:
    return _hidden(error)


def _hidden(error: Exception) -> JSONResponse:
    """Log the error and return a generic one.

    The text of the error may contain data that the caller must not see.
    """
    _log.error("request failed with an internal error", exc_info=error)
    return problem(
        500, "internal_error", "internal error; see the server log for the request with this X-Request-Id"
    )


_HANDLERS: dict[type[Exception], Any] = {
    errors.PosthouseError: _handle_ours,
    RequestValidationError: _handle_invalid_request,
    HTTPException: _handle_http_exception,
    psycopg.Error: _handle_database_error,
    PoolTimeout: _handle_database_error,
    Exception: _handle_unexpected,
}
