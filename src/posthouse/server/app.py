"""Puts the application together, and refuses to start with a route that anybody could use."""

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
from posthouse.blobs import store_for
from posthouse.errors import ConfigurationError
from posthouse.identity import Permission
from posthouse.identity.memory import KeyMemory
from posthouse.insights.settings import settings_in_effect
from posthouse.metrics.server import ServerMetrics
from posthouse.server import problems
from posthouse.server.access import Gate
from posthouse.server.enqueueing import Enqueuer
from posthouse.server.envelope import BODY_ROOM, Envelope
from posthouse.server.examining import Examiner
from posthouse.server.express import Express
from posthouse.server.live import Streams
from posthouse.server.openapi import PREFIX, describe, operation_id
from posthouse.server.routes import (
    artifacts,
    bulk,
    definition_checks,
    definitions,
    events,
    failures,
    finding,
    health,
    job_details,
    jobs,
    keys,
    metrics,
    operating,
    plain_worker,
    queues,
    session,
    stream,
    tenants,
    trigger_trials,
    triggers,
    watching,
    worker,
    worker_jobs,
    workers,
)
from posthouse.server.spans import ServerSpans
from posthouse.server.staff import Staff
from posthouse.server.sweeper import Sweeper
from posthouse.server.uploads import Uploads
from posthouse.server.wakeups import Wakeups
from posthouse.settings import Settings, load_settings
from posthouse.storage.connect import pool_options
from posthouse.storage.server import guarded_database_url
from posthouse.tracing import start_tracing

POOL_SIZE = 20
GZIP_FROM = 1000
_ROUTERS: tuple[APIRouter, ...] = (
    bulk.router,
    finding.router,
    trigger_trials.router,
    triggers.router,  # before jobs: /jobs/triggers is no job
    jobs.router,
    job_details.router,
    events.router,
    definitions.router,
    definition_checks.router,
    definitions.admin,
    workers.router,
    workers.admin,
    queues.router,
    queues.admin,
    queues.limits,
    failures.router,
    watching.router,
    operating.router,
    keys.router,
    tenants.router,
    session.router,
    stream.router,
    worker.router,
    worker_jobs.router,
    artifacts.router,
)
_PUBLIC = {"/health", "/ready", "/api/health", "/metrics", f"{PREFIX}/session", *console.PUBLIC}
"""Decide for themselves what they say to whom, or say nothing of anybody."""


def create_app(settings: Settings | None = None, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """The API as an ASGI application; its connections open with its lifespan.

    ``routers`` are those of applications, served beside it; each of their routes names its permission too.
    """
    settings = settings or load_settings()
    app = FastAPI(
        title="Posthouse",
        version="1",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(settings),
        generate_unique_id_function=operation_id,
    )
    app.state.settings = settings
    app.state.settings_in_effect = settings_in_effect(settings)
    app.router.routes.extend(own_routes())
    for router in routers:
        app.include_router(router)
    app.include_router(console.router)
    problems.install(app)
    check_permissions(app)
    app.openapi = describe(app, open_to_all(app))  # type: ignore[method-assign]
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM)
    app.add_middleware(Express, api=app, path=f"{PREFIX}/jobs")
    own = app.state.metrics = ServerMetrics()
    app.add_middleware(Envelope, most_bytes=settings.max_payload_bytes + BODY_ROOM, observe=own.request)
    if settings.tracing:
        app.add_middleware(ServerSpans, traces=start_tracing())
    return app


@cache
def own_routes() -> list[BaseRoute]:
    """The routes that every application of a process has: to make them takes a quarter of a second."""
    own = FastAPI(openapi_url=None, generate_unique_id_function=operation_id)
    own.include_router(health.router)
    own.include_router(metrics.router)
    for router in _ROUTERS:
        own.include_router(router, prefix=PREFIX)
    own.include_router(plain_worker.router, prefix="/api")
    return own.router.routes


def _lifespan(settings: Settings) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        url = guarded_database_url(settings)
        pool: Any = AsyncConnectionPool(
            url, min_size=1, max_size=POOL_SIZE, open=False, **pool_options("server")
        )
        await pool.open()
        memory = KeyMemory(settings.direct_url or url)
        state = app.state
        state.gate = Gate(pool, settings, memory)
        state.enqueuer = Enqueuer(pool, settings.max_payload_bytes)
        state.streams = Streams(url, settings)
        state.scrapes = metrics.Scrapes(state.gate, settings, state.metrics)
        state.examiner = Examiner(state.gate, settings, url)
        state.staff = Staff(pool)
        state.store = store_for(settings)
        state.uploads = Uploads(state.store, settings)
        state.wakeups = Wakeups(settings.direct_url or url)
        await state.wakeups.start()
        sweeper = Sweeper(state.staff.line, state.store, state.uploads)
        tasks = [asyncio.create_task(each.run()) for each in (memory, sweeper)]
        yield
        await state.streams.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await state.wakeups.stop()
        await pool.close()

    return lifespan


def check_permissions(app: FastAPI) -> None:
    """Deny by default: a route that names no permission is a mistake, found before anybody else finds it."""
    for route in routes_of(app):
        if route.path not in {*_PUBLIC, app.openapi_url} and not permissions_for(route):
            raise ConfigurationError(f"the route {route.path} names no permission")


def routes_of(app: FastAPI) -> list[Any]:
    """Every route there is. Newer versions of FastAPI keep an included router as one item of their list."""
    return list(getattr(fastapi.routing, "iter_route_contexts", iter)(app.routes))


def open_to_all(app: FastAPI) -> set[tuple[str, str]]:
    """Methods and paths that ask for no permission."""
    return {
        (method, route.path)
        for route in routes_of(app)
        if not permissions_for(route)
        for method in getattr(route, "methods", None) or ()
    }


def permissions_for(route: Any) -> frozenset[Permission]:
    """Any one of them opens it."""
    for dependency in route.dependant.dependencies if hasattr(route, "dependant") else ():
        found: frozenset[Permission] | None = getattr(dependency.call, "permissions", None)
        if found is not None:
            return found
    return frozenset()
