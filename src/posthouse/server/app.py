"""The ASGI application, and the check that each route declares a permission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import fastapi.routing
from fastapi import APIRouter, FastAPI
from psycopg_pool import AsyncConnectionPool
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute

from posthouse import console
from posthouse.app import Channel
from posthouse.blobs import open_store
from posthouse.dispatch import open_redis, state_of
from posthouse.errors import ConfigurationError
from posthouse.identity import Permission
from posthouse.identity.authenticator import KeyCache
from posthouse.insights.administration import settings_in_effect
from posthouse.metrics.server import ServerMetrics
from posthouse.server.artifacts import Sweeper, Uploads
from posthouse.server.enqueuer import Enqueuer
from posthouse.server.health import CACHE_SECONDS, CachedResult, HealthCache, ServerHeartbeat
from posthouse.server.http import problems
from posthouse.server.http.auth import RequestAuthenticator, authorize_before_body
from posthouse.server.http.middleware import BODY_ROOM, RequestMiddleware, TracingMiddleware
from posthouse.server.http.openapi import PREFIX, application_operation_id, describe, operation_id
from posthouse.server.live import Publisher, Subscriptions
from posthouse.server.routes import credentials, health, live
from posthouse.server.routes.admin import apps, definitions, monitoring, queues, tenants, workers
from posthouse.server.routes.admin.apps import Application, listed
from posthouse.server.routes.tenant import artifacts, bulk, erasures, events, jobs, triggers
from posthouse.server.routes.tenant.fast_enqueue import FastEnqueue
from posthouse.server.routes.worker import fleet, simple
from posthouse.server.routes.worker import jobs as worker_jobs
from posthouse.server.workers.claims import WorkerNotifications
from posthouse.server.workers.registry import RemoteWorkers
from posthouse.settings import Settings, load_settings
from posthouse.storage.connections import pool_options
from posthouse.storage.database import awaited_database_url
from posthouse.tracing import start_tracing
from posthouse.waiting import end_tasks

POOL_SIZE = 20
GZIP_FROM = 1000
GZIP_LEVEL = 1
"""The compression level. Compression blocks the event loop.

Level 9 takes 6 to 16 times as long for a tenth fewer bytes.
"""
_ROUTERS: tuple[APIRouter, ...] = (
    bulk.router,
    jobs.search,
    triggers.router,  # before jobs: /jobs/triggers is not a job id
    jobs.router,
    jobs.details,
    events.router,
    erasures.router,
    definitions.router,
    definitions.checks,
    definitions.admin,
    workers.router,
    simple.registry,
    workers.admin,
    queues.router,
    queues.admin,
    queues.limits,
    bulk.failures,
    monitoring.router,
    monitoring.admin,
    credentials.keys,
    tenants.router,
    apps.router,
    credentials.session,
    live.router,
    fleet.router,
    worker_jobs.router,
    artifacts.router,
)
_HEALTH = {"/health", "/ready", "/api/health", health.PATH}
_PUBLIC = {*_HEALTH, "/metrics", f"{PREFIX}/session", *console.PUBLIC}
"""Routes without a declared permission: they check credentials themselves, or return nothing private."""


def create_app(
    settings: Settings | None = None,
    routers: Sequence[APIRouter] = (),
    channels: Sequence[Channel] = (),
    applications: Sequence[Application] = (),
) -> FastAPI:
    """Return the API as an ASGI application. Its lifespan opens and closes the connections.

    - ``routers``: routers of applications to serve as well. Each of their routes must declare a permission.
    - ``channels``: functions of applications that name further Redis Pub/Sub channels for live updates.
    - ``applications``: the applications that the page `/apps` lists beside those with pages.
    """
    settings = settings or load_settings()
    app = FastAPI(
        title="Posthouse",
        version="1",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(settings, channels),
        generate_unique_id_function=application_operation_id,
    )
    app.state.settings = settings
    app.state.settings_in_effect = settings_in_effect(settings)
    app.router.routes.extend(own_routes())
    for router in routers:
        app.include_router(router)
    app.include_router(console.app_list())
    app.include_router(console.router)
    app.state.applications = listed(applications, _app_pages(app))
    problems.install(app)
    check_permissions(app)
    app.openapi = describe(app, open_to_all(app), _own_paths())  # type: ignore[method-assign]
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM, compresslevel=GZIP_LEVEL)
    app.add_middleware(FastEnqueue, api=app, path=f"{PREFIX}/jobs")
    own = app.state.metrics = ServerMetrics()
    app.add_middleware(
        RequestMiddleware,
        max_bytes=settings.max_payload_bytes + BODY_ROOM,
        body_seconds=settings.body_timeout_seconds,
        before_body=authorize_before_body,
        observe=own.request,
    )
    if settings.tracing:
        app.add_middleware(TracingMiddleware, traces=start_tracing())
    return app


@cache
def own_routes() -> list[BaseRoute]:
    """Return the built-in routes, shared by all applications of a process: building them takes 0.25 s."""
    own = FastAPI(openapi_url=None, generate_unique_id_function=operation_id)
    own.include_router(health.router)
    own.include_router(health.scraped)
    for router in _ROUTERS:
        own.include_router(router, prefix=PREFIX)
    own.include_router(simple.router, prefix="/api")
    own.include_router(health.workers)
    return own.router.routes


def _own_paths() -> set[str]:
    """Return the built-in paths as they are in the OpenAPI document, without converters such as ``:path``."""
    return {route.path_format for route in _contexts(own_routes())}


def _lifespan(settings: Settings, channels: Sequence[Channel]) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        url = await awaited_database_url(settings)
        pool: Any = AsyncConnectionPool(
            url, min_size=1, max_size=POOL_SIZE, open=False, **pool_options("server")
        )
        await pool.open()
        memory = KeyCache(settings.direct_url or url)
        state = app.state
        state.authenticator = RequestAuthenticator(pool, settings, memory)
        state.enqueuer = Enqueuer(pool, settings.max_payload_bytes)
        state.streams = Subscriptions(url, settings)
        state.scrapes = health.Scrapes(state.authenticator, settings, state.metrics)
        state.health_cache = HealthCache(state.authenticator, settings, url)
        state.workers = RemoteWorkers(pool)
        state.store = open_store(settings)
        state.uploads = Uploads(state.store, settings)
        state.link_secret = None  # read when the first link is signed or verified
        state.notifications = WorkerNotifications(settings.direct_url or url)
        await state.notifications.start()
        sweeper = Sweeper(state.workers.connections, state.store, state.uploads)
        presence = ServerHeartbeat(state.workers.connections)
        redis = await open_redis(settings)
        state.redis_state = CachedResult(lambda: state_of(redis), CACHE_SECONDS)
        publishers = [] if redis is None else [Publisher(state.streams, redis, channels)]
        runs = [memory.run(), sweeper.run(), presence.run(), *(each.run() for each in publishers)]
        tasks = [asyncio.create_task(run) for run in runs]
        yield
        await state.streams.close()
        await end_tasks(tasks)
        await presence.leave()
        for publisher in publishers:
            await publisher.close()
        await state.notifications.stop()
        await pool.close()

    return lifespan


def check_permissions(app: FastAPI) -> None:
    """Deny by default: raise ConfigurationError for a route that declares no permission."""
    for route in routes_of(app):
        is_public = route.path in {*_PUBLIC, app.openapi_url} or _app_page_of(route) is not None
        if not is_public and not permissions_for(route):
            raise ConfigurationError(
                f"the route {route.path} declares no permission; add a dependency allow(Permission...)"
            )


def _app_pages(app: FastAPI) -> list[console.AppPage]:
    """Return the pages of applications, each once."""
    return sorted(
        {page for route in routes_of(app) if (page := _app_page_of(route)) is not None} - {console.LIST}
    )


def _app_page_of(route: Any) -> console.AppPage | None:
    return console.app_page_of(route.dependant.call) if hasattr(route, "dependant") else None


def routes_of(app: FastAPI) -> list[Any]:
    """Return all routes.

    Newer versions of FastAPI keep an included router as one item of the list.
    """
    return _contexts(app.routes)


def _contexts(routes: Sequence[BaseRoute]) -> list[Any]:
    return list(getattr(fastapi.routing, "iter_route_contexts", iter)(routes))


def open_to_all(app: FastAPI) -> set[tuple[str, str]]:
    """Return the methods and paths that require no permission."""
    return {
        (method, route.path)
        for route in routes_of(app)
        if not permissions_for(route)
        for method in getattr(route, "methods", None) or ()
    }


def permissions_for(route: Any) -> frozenset[Permission]:
    """Return the permissions of a route. A caller needs one of them."""
    for dependency in route.dependant.dependencies if hasattr(route, "dependant") else ():
        found: frozenset[Permission] | None = getattr(dependency.call, "permissions", None)
        if found is not None:
            return found
    return frozenset()
