"""posthouse up: everything, on an embedded Postgres or on yours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from posthouse.cli.options import app_option, commands_option, log_json_option, log_level_option
from posthouse.cli.output import say

if TYPE_CHECKING:
    import socket

    from posthouse.app import App
    from posthouse.cli.logs import WorkerField
    from posthouse.cli.server import Serving
    from posthouse.settings import Settings

DEMO = "posthouse.cli.demo:app"


def up(
    *,
    host: str = typer.Option("127.0.0.1", help="Where to listen.", show_default=True),
    port: int = typer.Option(8765, min=0, max=65535, help="0 takes a free one.", show_default=True),
    data_dir: Path | None = typer.Option(None, help="Where the embedded Postgres keeps its data."),
    app: list[str] = app_option(),
    demo: bool = typer.Option(
        True,
        "--demo/--no-demo",
        help="Without an app, load what is installed, and a small one.",
    ),
    commands: bool | None = commands_option(),
    open_: bool | None = typer.Option(
        None, "--open/--no-open", help="Open the console in a browser. By default on a terminal, on loopback."
    ),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
) -> None:
    """Start everything: Postgres, the schema, a keeper, a worker, and the API.

    Without POSTHOUSE_DATABASE_URL an embedded Postgres is started, and stopped again at the end.

    [b]Examples:[/b]

    posthouse up

    posthouse up --app shop.jobs:app --data-dir ./data

    POSTHOUSE_DATABASE_URL=postgresql://app@db/app posthouse up --app shop.jobs:app
    """
    import os
    import sys

    from posthouse.cli.apps import chosen_paths
    from posthouse.cli.listening import listen
    from posthouse.cli.logs import start_logging
    from posthouse.settings import ENV_PREFIX, load_settings
    from posthouse.worker.process import run_loop

    with listen(host, port) as listening:
        settings = load_settings(data_dir=data_dir)
        embedded = not settings.database_url
        url = _start_database(settings)
        # For the apps, which read the settings themselves, and for the processes that they start.
        os.environ[f"{ENV_PREFIX}DATABASE_URL"] = url
        os.environ[f"{ENV_PREFIX}DATA_DIR"] = str(settings.data_dir.resolve())
        settings = load_settings(data_dir=data_dir, commands=commands)
        paths = chosen_paths(app, settings)
        apps = _load(paths, settings)
        for loaded in apps.values():
            loaded.migrate()
        if demo and not paths:
            apps = {**_load([DEMO], settings), **_load_installed(settings)}
        field = start_logging(as_json=log_json, level=log_level, stream=sys.stderr)
        hint = _hint(settings, data_dir) if embedded else ""
        opens = _is_here(listening) and sys.stdout.isatty() if open_ is None else open_
        run_loop(_serve(apps, settings, listening, field, hint, opens=opens))


def _start_database(settings: Settings) -> str:
    from posthouse.cli.session import reachable
    from posthouse.storage.connect import connect_sync
    from posthouse.storage.migrate import migrate
    from posthouse.storage.server import embedded_server

    with _reported() as report:
        if not settings.database_url:
            return embedded_server(settings.data_dir, report).url
        url = reachable(settings, check_schema=False)
        report("migrating")
        with connect_sync(url, "migrate") as connection:
            migrate(connection)
        return url


@contextmanager
def _reported() -> Iterator[Callable[[str], None]]:
    """Says on stderr what is being done, as a spinner on a terminal."""
    import sys

    texts = {
        "initialising": "making a Postgres of our own (only the first time)",
        "starting": "starting Postgres",
        "ready": "Postgres is up",
        "migrating": "bringing the schema up to date",
    }
    if not sys.stderr.isatty():
        yield lambda step: typer.echo(texts.get(step, step), err=True)
        return
    from rich.console import Console

    with Console(stderr=True).status("looking for Postgres") as shown:
        yield lambda step: shown.update(texts.get(step, step))


def _load(paths: list[str], settings: Settings) -> dict[str, App]:
    from posthouse.cli.apps import load_apps
    from posthouse.errors import ConfigurationError

    apps = load_apps(paths)
    for path, app in apps.items():
        if app.settings.database_url != settings.database_url:
            raise ConfigurationError(
                f"{path} names a database of its own: leave it out of App(...), "
                "or run it with `posthouse worker`"
            )
    return apps


def _load_installed(settings: Settings) -> dict[str, App]:
    """The apps of installed packages that can run here. Nobody asked for the others by name: they are left
    out.
    """
    from posthouse.cli.apps import installed_apps
    from posthouse.errors import ConfigurationError, SchemaError

    able: dict[str, App] = {}
    for path in installed_apps().values():
        try:
            found = _load([path], settings)
            found[path].migrate()
        except (ConfigurationError, SchemaError) as error:
            say(f"{path} is left out: {error}", err=True, style="yellow")
        else:
            able |= found
    return able


def _hint(settings: Settings, data_dir: Path | None) -> str:
    """How other commands find this Postgres."""
    return f"POSTHOUSE_DATA_DIR={settings.data_dir.resolve()} " if data_dir is not None else ""


def _is_here(listening: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    from ipaddress import ip_address

    return ip_address(listening.getsockname()[0]).is_loopback


def _show_console(serving: Serving, listening: socket.socket, *, opens: bool) -> None:
    """The way in for whoever started this; from another machine one needs a key."""
    import webbrowser

    from posthouse.cli.listening import address_of
    from posthouse.cli.options import caller

    if not _is_here(listening):
        return
    address = serving.console_for(caller(), address_of(listening))
    say(f"Open the console, without a key this once: {address}")
    if opens:
        webbrowser.open(address)


async def _serve(
    apps: dict[str, App],
    settings: Settings,
    listening: socket.socket,
    field: WorkerField,
    hint: str,
    *,
    opens: bool,
) -> None:
    import asyncio
    import logging

    from posthouse.cli.apps import combined
    from posthouse.cli.listening import address_of
    from posthouse.cli.server import Serving, first_key
    from posthouse.cli.worker import announce
    from posthouse.errors import PosthouseError
    from posthouse.system.housekeeping import Housekeeping
    from posthouse.worker.process import Stop

    stop = Stop(asyncio.get_running_loop())
    whole = combined(apps, settings)
    if DEMO in apps and await _is_first_start(settings.database_url, whole):
        from posthouse.cli.demo import enqueue_some

        await enqueue_some()
    keeper = Housekeeping(settings.database_url, settings)
    await keeper.start()
    worker = await whole.worker() if whole.definitions or settings.commands else None
    if worker is not None:
        await worker.start()
        announce(worker, field)
    key = await first_key(settings.database_url)
    serving = Serving(settings, apps.values())
    await serving.start(listening)
    say(f"Posthouse is ready: {address_of(listening)}")
    if key is not None:
        say(f"Your admin key, shown this once: {key}")
    _show_console(serving, listening, opens=opens)
    say(f"Look around: {hint}posthouse jobs list, or {hint}posthouse doctor", err=True, style="dim")
    if DEMO in apps and len(apps) > 1:
        say(f"Give it something to do: {hint}posthouse demo, in another terminal", err=True, style="dim")
    await stop.asked_or(*((worker.failed, worker.dismissed) if worker is not None else ()))
    logging.getLogger("posthouse.up").info("stopping: running jobs are finished first")
    await serving.stop()
    if worker is not None:
        await stop.again(asyncio.ensure_future(worker.stop()), worker.hurry)
    await keeper.stop()
    for app in apps.values():
        await app.close()
    if worker is not None and worker.failed.is_set():
        raise PosthouseError("the worker broke down; the log says why")


async def _is_first_start(url: str, app: App) -> bool:
    """Whether no worker has announced these jobs before."""
    from posthouse.insights import definitions
    from posthouse.storage.connect import connect_async

    async with await connect_async(url, "cli") as connection:
        return not {item.key for item in await definitions(connection)} & set(app.definitions)
