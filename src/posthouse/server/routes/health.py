"""Health and metrics, for load balancers, process supervisors and monitoring."""

from __future__ import annotations

import hmac
import ipaddress
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from posthouse.errors import NotAuthenticated, TooManyRequests
from posthouse.identity import Permission, Principal
from posthouse.insights.health import Health, Presence
from posthouse.metrics.server import ServerMetrics, Snapshot, take_snapshot
from posthouse.server.health import DATABASE_DOWN, CachedResult, HealthCache
from posthouse.server.http.auth import RequestAuthenticator, principal_of
from posthouse.server.http.responses import json_response
from posthouse.settings import Settings

router = APIRouter(tags=["health"])


@router.get("/health", operation_id="process_health")
async def alive() -> dict[str, str]:
    """Check that this process is alive.

    The database is not checked: restarting this process would not repair it.
    """
    return {"status": "ok"}


@router.get("/ready", responses={503: {"description": "Not ready; see `cause`"}})
async def ready(request: Request) -> Response:
    """Check that this server can serve requests.

    Ready means that the database is reachable and has the schema that this version requires.
    """
    health_cache: HealthCache = request.app.state.health_cache
    cause = await health_cache.not_ready_reason.get()
    return (
        json_response({"status": "unready", "cause": cause}, 503)
        if cause
        else json_response({"status": "ready"})
    )


@router.get(
    "/api/health",
    response_model=Health,
    responses={503: {"model": Health, "description": "Failing; see `causes`"}},
)
async def platform_health(request: Request) -> Response:
    """Check that jobs are processed.

    Returns 200, or 503 with the names of the failing checks. Without super-admin credentials the response
    contains only the names of failing checks.
    """
    # Public, because external monitoring often cannot send a key; the names reveal nothing about the jobs.
    health_cache: HealthCache = request.app.state.health_cache
    found = await health_cache.health.get()
    return json_response(
        found if await _sees_all(request) else _redacted(found), 503 if found.status == "failing" else 200
    )


def _redacted(found: Health) -> dict[str, Any]:
    causes = [{"check": cause.check, "severity": cause.severity} for cause in found.causes]
    return {"status": found.status, "causes": causes}


async def _sees_all(request: Request) -> bool:
    with suppress(NotAuthenticated, *DATABASE_DOWN):
        return (await principal_of(request)).can(Permission.OVERVIEW_READ)
    return False


PATH = "/api/worker/health"
workers = APIRouter(tags=["worker (simple)"])


@workers.get(PATH, responses={503: {"description": "The database is unreachable"}})
async def worker_health(request: Request) -> Response:
    """Check that workers can claim jobs.

    `database` is `ok` or `unreachable`; `redis` is the same, or `not configured`.
    With the key of a worker or a user the response also has `active_workers` and `pending_jobs`, within the
    tenant and the queues of the key.
    """
    health_cache: HealthCache = request.app.state.health_cache
    found = await health_cache.presence.get()
    redis = await request.app.state.redis_state.get()
    if found is None:
        return json_response({"status": "failing", "database": "unreachable", "redis": redis}, 503)
    caller = await _caller(request)
    counts = {} if caller is None else _counts(found, caller)
    return json_response({"status": "ok", "database": "ok", "redis": redis, **counts})


async def _caller(request: Request) -> Principal | None:
    """Return the caller, if the counts are meant for it."""
    with suppress(NotAuthenticated, TooManyRequests, *DATABASE_DOWN):
        found = await principal_of(request)
        if found.can(Permission.WORK) or found.can(Permission.WORKERS_READ):
            return found
    return None


def _counts(found: Presence, caller: Principal) -> dict[str, Any]:
    queues = None if caller.queues is None else list(caller.queues)
    return {
        "active_workers": found.active_workers(caller.tenant, queues),
        "pending_jobs": found.pending_jobs(caller.tenant, queues),
    }


scraped = APIRouter(tags=["metrics"])

CACHE_SECONDS = 5.0
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class Scrapes:
    """Serves metrics; the database is read at most every few seconds."""

    def __init__(self, authenticator: RequestAuthenticator, settings: Settings, own: ServerMetrics) -> None:
        self._authenticator = authenticator
        self._settings = settings
        self.own = own
        self.snapshot = CachedResult(self._take_snapshot, CACHE_SECONDS)

    async def _take_snapshot(self) -> Snapshot:
        async with self._authenticator.pool.connection() as connection:
            return await take_snapshot(connection, self._settings)


@scraped.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return metrics in the Prometheus text format.

    Requires the setting metrics_token or a super-admin key as bearer token. Without metrics_token, requests
    from the same host to a loopback address need no credentials, if their Host header is an IP address,
    localhost, or a name in the setting metrics_hosts.
    """
    await _admit(request)
    scrapes: Scrapes = request.app.state.scrapes
    authenticator: RequestAuthenticator = request.app.state.authenticator
    scrapes.own.update(await scrapes.snapshot.get(), authenticator.pool, len(request.app.state.streams))
    text, content_type = scrapes.own.text(request.headers.get("accept", ""))
    return Response(text, headers={"Content-Type": content_type})


async def _admit(request: Request) -> None:
    settings: Settings = request.app.state.settings
    authorization = request.headers.get("authorization")
    if authorization is None and not settings.metrics_token and _is_local(request):
        return
    given = (authorization or "").partition(" ")[2].strip()
    if settings.metrics_token and hmac.compare_digest(given.encode(), settings.metrics_token.encode()):
        return
    try:
        principal = await principal_of(request)
    except NotAuthenticated:
        raise NotAuthenticated(
            "authentication required: send metrics_token or a super-admin key in the "
            "`Authorization: Bearer <key>` header"
        ) from None
    principal.require(Permission.METRICS_READ)


def _is_local(request: Request) -> bool:
    """Return whether the request came over the loopback interface without a proxy."""
    server = (request.scope.get("server") or ("", 0))[0]
    client = request.client.host if request.client else ""
    return (
        _is_loopback(server)
        and _is_loopback(client)
        and _is_known_host(request)
        and not any(name in request.headers for name in _FORWARDED)
    )


def _is_known_host(request: Request) -> bool:
    """Return whether the Host header is an address, localhost, or listed in the setting metrics_hosts.

    A page of another site can make a browser on this machine send requests here, under the site's own name
    (DNS rebinding).
    """
    settings: Settings = request.app.state.settings
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    known = {"localhost", *(name.strip().lower() for name in settings.metrics_hosts.split(","))} - {""}
    return host in known or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
