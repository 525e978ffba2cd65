"""posthouse server: the HTTP API alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from posthouse.cli.options import app_option, log_json_option, log_level_option
from posthouse.cli.output import say

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Iterable, Iterator, Sequence

    import uvicorn
    from fastapi import FastAPI

    from posthouse.app import App
    from posthouse.settings import Settings


def server(
    *,
    host: str = typer.Option("127.0.0.1", help="Where to listen.", show_default=True),
    port: int = typer.Option(8765, min=0, max=65535, help="0 takes a free one.", show_default=True),
    app: list[str] = app_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
) -> None:
    """Serve the HTTP API until told to stop, and beside it the routes of apps that have some.

    [b]Examples:[/b]

    posthouse server --host 0.0.0.0 --port 8765

    posthouse server --app shop.jobs:app
    """
    import sys

    from posthouse.cli.apps import chosen_paths, load_apps
    from posthouse.cli.listening import listen
    from posthouse.cli.logs import start_logging
    from posthouse.cli.session import reachable
    from posthouse.settings import load_settings
    from posthouse.worker.process import run_loop

    with listen(host, port) as listening:
        settings = load_settings()
        reachable(settings)
        apps = load_apps(chosen_paths(app, settings))
        start_logging(as_json=log_json, level=log_level, stream=sys.stderr)
        run_loop(_serve(settings, listening, list(apps.values())))


async def _serve(settings: Settings, listening: socket.socket, apps: Sequence[App]) -> None:
    import asyncio

    from posthouse.cli.listening import address_of
    from posthouse.worker.process import Stop

    stop = Stop(asyncio.get_running_loop())
    serving = Serving(settings, apps)
    await serving.start(listening)
    say(f"Posthouse is ready: {address_of(listening)}")
    await stop.asked_or()
    await serving.stop()
    for app in apps:
        await app.close()


class Serving:
    """The API on a socket, started and stopped by whoever owns the process."""

    def __init__(self, settings: Settings, apps: Iterable[App] = ()) -> None:
        self._settings = settings
        self._server, self._app = _uvicorn(settings, apps)
        self._task: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        import asyncio
        from socket import IPPROTO_TCP, TCP_NODELAY

        from posthouse.errors import PosthouseError
        from posthouse.storage.server import guarded_database_url

        guarded_database_url(self._settings)  # so that what is wrong is said here, and not in a log only
        # Connections have it from here. asyncio sets it on few of them; without it the body of an answer
        # waits until the other side has acknowledged the head, and that has 40 ms for it.
        listening.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise PosthouseError("the server did not start; the log says why")
            await asyncio.sleep(0.01)

    def console_for(self, name: str, address: str) -> str:
        """Where this operator's browser is logged in without a key: good once, for some minutes."""
        from posthouse.identity import Principal, Role

        somebody = Principal(name=name, role=Role.SUPER_ADMIN, tenant=None)
        return f"{address}/console/#ticket={self._app.state.gate.tickets.issue(somebody)}"

    async def stop(self) -> None:
        self._server.should_exit = True
        wakeups = getattr(self._app.state, "wakeups", None)
        if wakeups is not None:  # whoever waits here for something need not be waited for
            wakeups.release()
        if self._task is not None:
            await self._task


def _uvicorn(settings: Settings, apps: Iterable[App]) -> tuple[uvicorn.Server, FastAPI]:
    from posthouse.cli.apps import routers_of
    from posthouse.errors import ConfigurationError

    try:
        import uvicorn

        from posthouse.server import create_app
    except ImportError as error:
        raise ConfigurationError(f"the API needs {error.name}: pip install 'posthouse[server]'") from None

    app = create_app(settings, routers_of(apps))

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are for the whole process, whose parts stop in order."""
            yield

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Live streams end only when they are told to, and everybody would wait for them."""
            await app.state.streams.close()
            await super().shutdown(sockets)

    server = Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",  # of its own lines: that it starts and stops is said here
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=5,
            server_header=False,
        )
    )
    return server, app


async def first_key(url: str) -> str | None:
    """A key for whoever set this up, if there is none yet."""
    from posthouse.cli.options import caller
    from posthouse.identity import Role, issue_key
    from posthouse.insights import keys
    from posthouse.storage.connect import connect_async

    async with await connect_async(url, "cli") as connection:
        if any(key.role == Role.SUPER_ADMIN and key.revoked_at is None for key in await keys(connection)):
            return None
        return await issue_key(connection, "first admin", Role.SUPER_ADMIN, actor=caller())
