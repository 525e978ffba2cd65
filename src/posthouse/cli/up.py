"""posthouse up: start every part, on an embedded Postgres or on your own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.options import app_option, commands_option, log_json_option, log_level_option
from posthouse.cli.output import print_line
from posthouse.cli.reload import reload_option

if TYPE_CHECKING:
    import socket

    from posthouse.app import App
    from posthouse.cli.reload import Inherited
    from posthouse.cli.run_server import ServerProcess
    from posthouse.settings import Settings
    from posthouse.supervisor.supervisor import JobSettler, Supervisor
    from posthouse.worker.shutdown import ShutdownSignals

DEMO = "posthouse.cli.demo:app"


def up(
    *,
    host: str = typer.Option("127.0.0.1", help="The address to listen on.", show_default=True),
    port: int = typer.Option(
        8765, min=0, max=65535, help="The port; 0 chooses a free one.", show_default=True
    ),
    data_dir: Path | None = typer.Option(None, help="The folder for the data of the embedded Postgres."),
    app: list[str] = app_option(),
    demo: bool = typer.Option(
        True,
        "--demo/--no-demo",
        help="Without --app, load the installed applications and the built-in demo jobs.",
    ),
    commands: bool | None = commands_option(),
    open_: bool | None = typer.Option(
        None,
        "--open/--no-open",
        help="Open the console in a browser. Default: if started from a terminal on a loopback address.",
    ),
    reload: bool = reload_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
) -> None:
    """Start everything: Postgres, the schema, the API with the console, a keeper and a worker.

    Without POSTHOUSE_DATABASE_URL it starts an embedded Postgres, and stops it at the end. The data is kept.

    [b]Examples:[/b]

    posthouse up

    posthouse up --app shop.jobs:app --data-dir ./data

    posthouse up --app shop.jobs:app --reload

    POSTHOUSE_DATABASE_URL=postgresql://app@db/app posthouse up --app shop.jobs:app
    """
    import os
    import sys

    from posthouse.cli.apps import resolve_app_paths, settings_for
    from posthouse.cli.child import spec_of
    from posthouse.cli.reload import inherited, run_reloading
    from posthouse.cli.run_server import bind_socket
    from posthouse.cli.startup import require_extras
    from posthouse.settings import ENV_PREFIX, load_settings
    from posthouse.worker.shutdown import run_event_loop

    settings = load_settings(data_dir=data_dir)
    embedded = not settings.database_url
    require_extras(
        "posthouse up", *(["embedded"] if embedded else []), "server", *(["reload"] if reload else [])
    )
    parent = inherited()
    if reload:
        with bind_socket(host, port) as listening:
            with _startup_progress() as report:
                _start_database(settings, report)  # by this process, so that restarts do not restart Postgres
            sys.exit(run_reloading(resolve_app_paths(app, settings), listening))
    with bind_socket(host, port) if parent is None else parent.listening() as listening:
        with _startup_progress(quiet=parent is not None) as report:
            url = _start_database(settings, report)
            # The apps, and the processes that they start, read the settings from the environment.
            os.environ[f"{ENV_PREFIX}DATABASE_URL"] = url
            os.environ[f"{ENV_PREFIX}DATA_DIR"] = str(settings.data_dir.resolve())
            settings = load_settings(data_dir=data_dir, commands=commands)
            paths = resolve_app_paths(app, settings)
            report("loading")
            apps = _load(paths, settings)
            for loaded in apps.values():
                loaded.migrate()
            if demo and not paths:
                apps = {**_load([DEMO], settings), **_load_installed(settings)}
        settings = settings_for(apps, data_dir=data_dir, commands=commands)
        hidden = [DEMO] if DEMO in apps and log_level != "debug" else []
        _start_logging(
            as_json=log_json,
            level=log_level,
            hidden=[kind for path in hidden for kind in apps[path].definitions],
        )
        spec = spec_of(
            apps=list(apps),
            flags={"commands": commands, "data_dir": data_dir and str(data_dir)},
            log_json=log_json,
            log_level=log_level,
            log_stream="stderr",
            hidden=hidden,
            shared=False,
            quiet=True,
        )
        data = _Data(settings, embedded=embedded, chosen=data_dir is not None)
        opens = _is_here(listening) and sys.stdout.isatty() if open_ is None else open_
        run_event_loop(_serve(apps, settings, listening, spec, _Screen(data, parent, opens)))


def _start_logging(*, as_json: bool | None, level: str, hidden: list[str]) -> None:
    """Log to stderr, without lines of hidden kinds; a line for each request only at level debug."""
    import logging
    import sys

    from posthouse.cli.log_format import HideKinds, start_logging

    start_logging(as_json=as_json, level=level, stream=sys.stderr).handler.addFilter(HideKinds(hidden))
    if level != "debug":
        logging.getLogger("posthouse.server.requests").setLevel(logging.WARNING)


def _start_database(settings: Settings, report: Callable[[str], None]) -> str:
    from posthouse.cli.database import checked_url
    from posthouse.storage.database import embedded_server, retry_startup_sync

    if not settings.database_url:
        return embedded_server(settings.data_dir, report).url
    url = checked_url(settings, check_schema=False, wait_for_startup=True)
    report("migrating")
    retry_startup_sync("migrate", lambda: _migrate(url))
    return url


def _migrate(url: str) -> None:
    from posthouse.storage.connections import connect_sync
    from posthouse.storage.migrations import migrate

    with connect_sync(url, "migrate") as connection:
        migrate(connection)


@contextmanager
def _startup_progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show each step of the start on stderr, as a spinner on a terminal."""
    import sys

    if quiet:
        yield lambda _: None
        return

    texts = {
        "initialising": "Creating the embedded Postgres (first start only)",
        "starting": "Starting Postgres",
        "ready": "Postgres is running",
        "migrating": "Updating the schema",
        "loading": "Loading the applications",
    }
    if not sys.stderr.isatty():
        yield lambda step: typer.echo(texts.get(step, step), err=True)
        return
    from rich.console import Console

    with Console(stderr=True).status("Looking for Postgres") as shown:
        yield lambda step: shown.update(texts.get(step, step))


def _load(paths: list[str], settings: Settings) -> dict[str, App]:
    from posthouse.cli.apps import load_apps
    from posthouse.errors import ConfigurationError

    apps = load_apps(paths)
    for path, app in apps.items():
        if app.settings.database_url != settings.database_url:
            raise ConfigurationError(
                f"{path} sets its own database URL, but `posthouse up` runs all apps on one database; "
                "remove the URL from App(...), or run this application with `posthouse worker`"
            )
    return apps


def _load_installed(settings: Settings) -> dict[str, App]:
    """Return the apps of installed packages that load and migrate; the others are skipped with a warning."""
    from posthouse.cli.apps import installed_apps
    from posthouse.errors import ConfigurationError, SchemaError

    able: dict[str, App] = {}
    for path in installed_apps().values():
        try:
            found = _load([path], settings)
            found[path].migrate()
        except (ConfigurationError, SchemaError) as error:
            print_line(f"warning: skipped the application {path}: {error}", err=True, style="yellow")
        else:
            able |= found
    return able


@dataclass(frozen=True, slots=True)
class _Data:
    """Where the data is, and what other commands need to find it."""

    settings: Settings
    embedded: bool
    chosen: bool
    """Whether --data-dir was given: other commands then need POSTHOUSE_DATA_DIR."""

    @property
    def command(self) -> str:
        import shlex

        from posthouse.cli.startup import own_command

        if not (self.embedded and self.chosen):
            return own_command()
        return f"POSTHOUSE_DATA_DIR={shlex.quote(str(self.settings.data_dir.resolve()))} {own_command()}"

    def __str__(self) -> str:
        from psycopg.conninfo import conninfo_to_dict

        if self.embedded:
            return f"{self.settings.data_dir.resolve()} (embedded Postgres; kept after you stop)"
        parts = conninfo_to_dict(self.settings.database_url)
        host = parts.get("host") or "the local socket"
        return f"database {parts.get('dbname') or parts.get('user') or ''} on {host} (your Postgres)"


@dataclass(frozen=True, slots=True)
class _Screen:
    """The first screen; after a reload one line."""

    data: _Data
    parent: Inherited | None
    opens: bool

    def show(
        self, serving: ServerProcess, listening: socket.socket, key: str | None, *, running: str, demo: bool
    ) -> None:
        import webbrowser

        from posthouse.cli.options import current_actor
        from posthouse.cli.run_server import address_of
        from posthouse.cli.startup import Welcome

        if self.parent is not None:
            self.parent.tell_ready()
            if self.parent.is_restart:
                print_line("reload: ready", err=True, style="dim")
                return
        address = address_of(listening)
        here = _is_here(listening)
        console = serving.login_link(current_actor(), address) if here else None
        apps = (
            serving.login_link(current_actor(), address, "/apps/") if here and serving.applications else None
        )
        Welcome(
            address=address,
            admin_key=key,
            console=console,
            apps=apps,
            running=running,
            tries=_tries(self.data.command, demo=demo),
            data=str(self.data),
        ).show()
        if self.opens and console is not None:
            webbrowser.open(console)


def _is_here(listening: socket.socket) -> bool:
    """Whether only this machine can reach the address."""
    from ipaddress import ip_address

    return ip_address(listening.getsockname()[0]).is_loopback


def _running(apps: dict[str, App], settings: Settings, supervisor: Supervisor | None) -> str:
    """Return what runs, in one line."""
    parts = "API and console, keeper"
    if supervisor is None:
        return f"{parts}; no worker was started because no application is given: pass --app module:name"
    names = [_name(path) for path in apps]
    loaded = f" for {', '.join(names)}" if names else ""
    count = settings.process_count()
    workers = "worker" if count == 1 else f"{count} workers"
    return f"{parts}, {workers}{loaded} ({count * settings.concurrency} jobs at a time)"


def _name(path: str) -> str:
    return "demo jobs" if path == DEMO else path.partition(":")[0].partition(".")[0]


def _tries(command: str, *, demo: bool) -> list[tuple[str, str]]:
    """Return three commands that work as printed, each after what it does."""
    job = f"""{command} enqueue demo.greet --payload '{{"name": "Ada"}}' --wait"""
    return [
        ("run a job", job) if demo else ("check the queue", f"{command} doctor"),
        ("list jobs", f"{command} jobs list"),
        ("inject crashes", f"{command} demo crash"),
    ]


async def _serve(
    apps: dict[str, App],
    settings: Settings,
    listening: socket.socket,
    spec: dict[str, Any],
    screen: _Screen,
) -> None:
    import asyncio
    import logging
    from dataclasses import replace

    from posthouse.cli.apps import merge_apps
    from posthouse.cli.run_server import ServerProcess, address_of, create_first_admin_key
    from posthouse.errors import PosthouseError
    from posthouse.maintenance import Maintenance
    from posthouse.supervisor.supervisor import Supervisor
    from posthouse.worker.shutdown import ShutdownSignals

    stop = ShutdownSignals(asyncio.get_running_loop(), lambda: settings.drain_seconds)
    settings = replace(settings, public_url=settings.public_url or address_of(listening))
    spec["flags"]["public_url"] = settings.public_url
    whole = merge_apps(apps, settings)
    if DEMO in apps and await _is_first_start(settings.database_url, whole):
        from posthouse.cli.demo import enqueue_some

        await enqueue_some()
    keeper = Maintenance(settings.database_url, settings)
    await keeper.start()
    supervisor = None
    if whole.definitions or settings.commands:
        supervisor = Supervisor(spec, _settle)
        supervisor.start()
    serving = ServerProcess(settings, apps)
    await serving.start(listening)
    key = await create_first_admin_key(settings.database_url)
    if await _ready(supervisor, stop):
        screen.show(serving, listening, key, running=_running(apps, settings, supervisor), demo=DEMO in apps)
        await stop.wait(*(() if supervisor is None else (supervisor.failed, supervisor.drained)))
    logging.getLogger("posthouse.up").info("stopping: waiting for running jobs; Ctrl-C again releases them")
    closing = asyncio.ensure_future(serving.stop())
    if supervisor is not None:
        await stop.wait_for_drain(asyncio.ensure_future(supervisor.stop()), supervisor.release_jobs)
    await closing
    await keeper.stop()
    for app in apps.values():
        await app.close()
    if supervisor is not None and supervisor.failed.is_set():
        raise supervisor.error or PosthouseError("the worker could not run; see the log for details")


async def _ready(supervisor: Supervisor | None, stop: ShutdownSignals) -> bool:
    """Wait until the workers run; return False if they cannot, or if the command was told to stop."""
    import asyncio

    if supervisor is None:
        return True
    ready = asyncio.ensure_future(supervisor.ready())
    asked = asyncio.ensure_future(stop.wait())
    await asyncio.wait([ready, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not ready.done():
        ready.cancel()
        return False
    return ready.result()


async def _settle(settings: Settings) -> JobSettler:
    from posthouse.supervisor.supervisor import JobSettler

    return JobSettler.direct(settings.database_url, settings)


async def _is_first_start(url: str, app: App) -> bool:
    """Whether no worker has announced any of these jobs before."""
    from posthouse.insights import definitions
    from posthouse.storage.connections import connect_async

    async with await connect_async(url, "cli") as connection:
        return not {item.key for item in await definitions(connection)} & set(app.definitions)
