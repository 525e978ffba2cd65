"""Metrics for Prometheus."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from posthouse.errors import NotAuthenticated
from posthouse.identity import Permission
from posthouse.metrics.server import ServerMetrics, Snapshot, take_snapshot
from posthouse.server.health import CachedResult
from posthouse.server.http.auth import Gate, principal_of
from posthouse.settings import Settings

router = APIRouter(tags=["metrics"])

CACHE_SECONDS = 5.0
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class Scrapes:
    """Serves metrics; the database is read at most every few seconds."""

    def __init__(self, gate: Gate, settings: Settings, own: ServerMetrics) -> None:
        self._gate = gate
        self._settings = settings
        self.own = own
        self.snapshot = CachedResult(self._look, CACHE_SECONDS)

    async def _look(self) -> Snapshot:
        async with self._gate.pool.connection() as connection:
            return await take_snapshot(connection, self._settings)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return metrics in the Prometheus text format.

    Requires the setting metrics_token or a super-admin key as bearer token. Without metrics_token, requests
    from the same host to a loopback address need no credentials, if their Host header is an IP address,
    localhost, or a name in the setting metrics_hosts.
    """
    await _admit(request)
    scrapes: Scrapes = request.app.state.scrapes
    gate: Gate = request.app.state.gate
    scrapes.own.update(await scrapes.snapshot.get(), gate.pool, len(request.app.state.streams))
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
