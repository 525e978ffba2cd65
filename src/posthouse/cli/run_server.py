"""posthouse server: the HTTP API and the console, without a worker."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import checked_url
from posthouse.cli.options import app_option, log_json_option, log_level_option
from posthouse.cli.output import print_line
from posthouse.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Iterable, Iterator, Mapping

    import uvicorn
    from fastapi import FastAPI

    from posthouse.app import App
    from posthouse.server.routes.admin.apps import Application
    from posthouse.settings import Settings


HANDOVER_ROUNDS = 5
"""Turns of the event loop to wait until asyncio has handed over an accepted connection, which takes three."""
SWITCH_SECONDS = 0.001
"""Seconds for which a thread may keep the interpreter while the event loop waits for it. See waiting.py.

Python's default is 5 ms.
"""
TICK_SECONDS = 1.0
CLOSE_SECONDS = 0.02
"""Seconds between checks for open connections when the server stops."""

KEEP_ALIVE_SECONDS = 9
"""Seconds for which an idle connection stays open.

Longer than in clients, which often close theirs after 5 s (httpx): a server that closes first may do so
while a request is on its way, and the client reports that it was disconnected.
"""
REQUEST_SECONDS = 3
"""Seconds for running requests after SIGTERM, of the five seconds that a server has to stop."""


def server(
    *,
    host: str = typer.Option("127.0.0.1", help="The address to listen on.", show_default=True),
    port: int = typer.Option(
        8765, min=0, max=65535, help="The port; 0 chooses a free one.", show_default=True
    ),
    app: list[str] = app_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
) -> None:
    """Serve the HTTP API and the console until told to stop, with the routes of the given applications.

    [b]Examples:[/b]

    posthouse server --host 0.0.0.0 --port 8765

    posthouse server --app shop.jobs:app
    """
    import sys

    from posthouse.cli.apps import load_apps, resolve_app_paths, settings_for
    from posthouse.cli.log_format import start_logging
    from posthouse.settings import load_settings
    from posthouse.worker.shutdown import run_event_loop

    with bind_socket(host, port) as listening:
        settings = load_settings()
        start_logging(as_json=log_json, level=log_level, stream=sys.stderr)
        checked_url(settings, wait_for_startup=True)
        apps = load_apps(resolve_app_paths(app, settings))
        run_event_loop(_serve(settings_for(apps), listening, apps))


async def _serve(settings: Settings, listening: socket.socket, apps: Mapping[str, App]) -> None:
    import asyncio

    from posthouse.worker.shutdown import ShutdownSignals

    stop = ShutdownSignals(asyncio.get_running_loop())
    serving = ServerProcess(settings, apps)
    await stop.wait_unless_stopped(serving.start(listening))
    print_line(f"Posthouse is ready: {address_of(listening)}")
    await stop.wait()
    await serving.stop()
    for app in apps.values():
        await app.close()


class WaitingConnections:
    """Connections without a complete request, which uvicorn would wait for without a time limit."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Any, tuple[Any, float]] = {}

    def close_overdue(self, connections: Iterable[Any], now: float) -> None:
        """Close the connections that wait for the headers of a request for too long.

        ``cycle`` is the last request of a connection; another one means that requests were served meanwhile.
        """
        waiting: dict[Any, tuple[Any, float]] = {}
        for connection in list(connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                continue
            last, began = self._since.get(connection, (cycle, now))
            waiting[connection] = (cycle, began if last is cycle else now)
            if now - waiting[connection][1] >= self._seconds:
                connection.transport.close()
        self._since = waiting


class ServerProcess:
    """The API on a socket, with the routes of applications by path. Its owner starts and stops it."""

    def __init__(self, settings: Settings, apps: Mapping[str, App] | None = None) -> None:
        import asyncio

        self._settings = settings
        self._leaving = asyncio.Event()
        self._server, self._app = _uvicorn(settings, apps or {}, self._leaving)
        self._task: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        import asyncio
        import sys
        from socket import IPPROTO_TCP, TCP_NODELAY

        from posthouse.dispatch import check_redis
        from posthouse.errors import PosthouseError
        from posthouse.storage.database import awaited_database_url

        await awaited_database_url(self._settings)  # checked here, because uvicorn would only log the error
        await check_redis(self._settings)  # for the same reason
        # Accepted connections inherit the option, which asyncio does not set on all of them. Without it the
        # body of a response waits up to 40 ms, until the client has acknowledged the headers.
        listening.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        sys.setswitchinterval(SWITCH_SECONDS)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise PosthouseError("the API server did not start; the log shows the error")
            await asyncio.sleep(0.01)

    def login_link(self, name: str, address: str, path: str = "/console/") -> str:
        """Return a link that logs this operator's browser in; it works once, for ten minutes."""
        from posthouse.identity import Principal, Role

        operator = Principal(name=name, role=Role.SUPER_ADMIN, tenant=None)
        return f"{address}{path}#ticket={self._app.state.authenticator.tickets.issue(operator)}"

    @property
    def applications(self) -> list[Application]:
        """The applications that the page /apps lists."""
        return list(self._app.state.applications)

    async def stop(self) -> None:
        """Finish the requests that are being served, then close every connection."""
        self._server.should_exit = True
        self._leaving.set()
        notifications = getattr(self._app.state, "notifications", None)
        if notifications is not None:  # ends long polls
            notifications.wake_all()
        if self._task is not None:
            await self._task


def _application(settings: Settings, apps: Mapping[str, App]) -> FastAPI:
    from posthouse.cli.apps import described, routers_of
    from posthouse.errors import ConfigurationError

    try:
        import uvicorn  # noqa: F401 - of the same extra

        from posthouse.server import create_app
    except ImportError as error:
        raise ConfigurationError(
            f"the API needs the package {error.name}; install it with: pip install 'posthouse[server]'"
        ) from None
    channels = [app.channel for app in apps.values() if app.channel is not None]
    return create_app(settings, routers_of(apps.values()), channels, described(apps))


def _uvicorn(
    settings: Settings, apps: Mapping[str, App], leaving: asyncio.Event
) -> tuple[uvicorn.Server, FastAPI]:
    app = _application(settings, apps)

    import asyncio

    import uvicorn

    unanswered = WaitingConnections(settings.header_timeout_seconds)

    class Server(uvicorn.Server):
        async def main_loop(self) -> None:
            await _tick(self, unanswered, leaving)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to the process, which stops its parts in order."""
            yield

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Also close event streams, and connections that were accepted a moment before.

            uvicorn closes the connections that it knows. asyncio has some that it accepted and not yet handed
            over: when the listening socket is closed, it leaves them open and answers nothing, and a client
            waits until its timeout. So accept no more first, and let those be handed over.
            """
            await app.state.streams.close()
            for listening in sockets or ():
                asyncio.get_running_loop().remove_reader(listening)
            for _ in range(HANDOVER_ROUNDS):
                await asyncio.sleep(0)
            closing = asyncio.create_task(self._close_connections())
            try:
                await super().shutdown(sockets)
            finally:
                closing.cancel()
                for connection in list(self.server_state.connections):
                    connection.transport.close()

        async def _close_connections(self) -> None:
            while True:
                for connection in list(self.server_state.connections):
                    connection.shutdown()
                await asyncio.sleep(CLOSE_SECONDS)

    server = Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",  # Posthouse logs start and stop itself
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=REQUEST_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies.strip()),
            forwarded_allow_ips=settings.trusted_proxies,
        )
    )
    return server, app


async def _tick(server: uvicorn.Server, unanswered: WaitingConnections, leaving: asyncio.Event) -> None:
    """Tick until the server is to stop. uvicorn's own loop wakes an idle process ten times as often."""
    from posthouse.waiting import wait_for_event

    while not await server.on_tick(0):
        unanswered.close_overdue(server.server_state.connections, time.monotonic())
        await wait_for_event(leaving, TICK_SECONDS)


async def create_first_admin_key(url: str) -> str | None:
    """Create and return an admin key if there is none yet."""
    from posthouse.cli.options import current_actor
    from posthouse.identity import Role, issue_key
    from posthouse.insights import keys
    from posthouse.storage.connections import connect_async

    async with await connect_async(url, "cli") as connection:
        if any(key.role == Role.SUPER_ADMIN and key.revoked_at is None for key in await keys(connection)):
            return None
        return await issue_key(connection, "first admin", Role.SUPER_ADMIN, actor=current_actor())


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind the port before anything else starts, so that a second start fails immediately."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (")[0]  # without a second mention of the address
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {reason}; "
            "stop the program that uses the port, or choose another one with --port"
        ) from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
