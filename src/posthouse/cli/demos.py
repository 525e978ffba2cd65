"""posthouse demo: the crash demo, and installed applications end to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import typer

from posthouse.cli.guarding import UsageError
from posthouse.cli.options import json_option
from posthouse.cli.output import print_line, show_json
from posthouse.worker.shutdown import SIGNALS, run_event_loop

if TYPE_CHECKING:
    from posthouse.app import App
    from posthouse.cli.run_server import ServerProcess
    from posthouse.demo.stage import Demo, Stage
    from posthouse.settings import Settings

CRASH = "crash"
CRASH_JOBS = 1000
MIN_CRASH_JOBS = 10


class _Wanted(NamedTuple):
    """The options of the command."""

    name: str
    size: int | None
    workers: int
    serve: bool
    as_json: bool
    as_job: bool


class _Prepared(NamedTuple):
    """The application, on a database that has its tables."""

    app: App
    path: str
    settings: Settings


def demo(
    *,
    name: str | None = typer.Argument(None, help="The demo to run. Without a name: list the demos."),
    size: int | None = typer.Option(
        None, "--size", "--jobs", min=1, metavar="N", help="The amount of work, such as the number of jobs."
    ),
    workers: int = typer.Option(
        1, min=0, metavar="N", help="Workers to start; the crash demo always has two.", show_default=True
    ),
    serve: bool = typer.Option(
        False, "--serve", help="Afterwards keep the server and the workers running until Ctrl-C."
    ),
    as_json: bool = json_option(),
    as_job: bool = typer.Option(False, "--as-job", hidden=True, help="For the job that runs a demo."),
) -> None:
    """Run a demo end to end and print its result.

    [b]crash[/b] runs 1,000 jobs that each write a row, on a temporary Postgres of its own, while it kills
    workers and Postgres. It exits with 1 unless each row was written exactly once.

    The other demos belong to installed applications. They run on the configured database, or on the embedded
    Postgres, so that their data stays. At the end they print what to open; with --serve they stay up, and the
    addresses work at once.

    [b]Examples:[/b]

    posthouse demo crash

    posthouse demo crash --jobs 200 --json

    posthouse demo embeddings --size 500

    posthouse demo vision --serve
    """
    from posthouse.cli.apps import installed_demos

    exit_on_interrupt()
    demos = installed_demos()
    if name is None:
        _list(demos, as_json=as_json)
    elif name == CRASH:
        if serve:
            raise UsageError("the crash demo deletes its Postgres at the end; --serve is for the other demos")
        _crash(CRASH_JOBS if size is None else size, as_json=as_json)
    elif name in demos:
        _run_installed(demos[name], _Wanted(name, size, workers, serve, as_json, as_job))
    else:
        raise UsageError(f"demo {name!r} does not exist; choose one of: {', '.join(_names(demos))}")


def _crash(jobs: int, *, as_json: bool) -> None:
    from posthouse.cli.startup import require_extras

    if jobs < MIN_CRASH_JOBS:
        raise UsageError(f"--jobs must be at least {MIN_CRASH_JOBS} for the crash demo, not {jobs}")
    require_extras("posthouse demo crash", "embedded")
    from posthouse.demo.crash import DemoReport, run
    from posthouse.demo.crash.report import make_screen

    found: list[DemoReport] = []

    async def go() -> None:
        with make_screen() as screen:
            found.append(await run(jobs, screen.show))

    run_interruptible(go())
    report = found[0]
    if as_json:
        show_json(report.as_json())
    else:
        print_line(str(report), style="bold green" if report.exact else "bold red")
    if not report.exact:
        raise typer.Exit(1)


def _run_installed(point: Any, wanted: _Wanted) -> None:
    from posthouse.cli.startup import require_extras
    from posthouse.settings import load_settings

    extras = ["server"] if load_settings().database_url else ["embedded", "server"]
    require_extras(f"posthouse demo {wanted.name}", *extras)
    run_interruptible(_run(point.load(), _prepare(wanted.name), wanted))


def _names(demos: dict[str, Any]) -> list[str]:
    return [CRASH, *demos]


def _list(demos: dict[str, Any], *, as_json: bool) -> None:
    from posthouse.cli.startup import own_command

    if as_json:
        show_json(_names(demos))
        return
    for name in _names(demos):
        print_line(f"{own_command()} demo {name}")


def _prepare(name: str) -> _Prepared:
    import os

    from posthouse.cli.apps import installed_apps, load_app, settings_for
    from posthouse.errors import ConfigurationError
    from posthouse.settings import ENV_PREFIX, load_settings
    from posthouse.storage.database import database_url

    path = installed_apps().get(name)
    if path is None:
        raise ConfigurationError(
            f"the demo {name!r} has no application: its package must declare an entry point {name!r} "
            "in the group posthouse.apps"
        )
    # The app and the workers read the settings from the environment.
    os.environ[f"{ENV_PREFIX}DATABASE_URL"] = database_url(load_settings())
    app = load_app(path)
    app.migrate()
    # The workers of the demo inherit the variable. With hybrid dispatch, the demo continues if Redis stops.
    if load_settings().redis_url:
        os.environ.setdefault(f"{ENV_PREFIX}DISPATCH", "hybrid")
    # The server has just started, and a demo kills a remote worker, whose jobs must not wait for the grace.
    return _Prepared(app, path, settings_for({path: app}, remote_grace_seconds=0.0))


async def _run(demo: Demo, prepared: _Prepared, wanted: _Wanted) -> None:
    import tempfile
    from pathlib import Path

    from posthouse.cli.run_server import ServerProcess, address_of, bind_socket
    from posthouse.demo.stage import JobScreen, Screen, Stage, finish, in_thread
    from posthouse.maintenance import Maintenance

    app, path, settings = prepared
    url = settings.database_url
    keeper = Maintenance(url, settings)
    serving = ServerProcess(settings, {path: app})
    with (
        bind_socket("127.0.0.1", 0) as listening,
        tempfile.TemporaryDirectory(prefix="posthouse-demo-") as folder,
    ):
        async with _alone(settings.direct_url or url, wanted.name):
            keys: list[str] = []
            undo = contextlib.AsyncExitStack()
            try:
                undo.push_async_callback(app.close)
                await keeper.start()
                undo.push_async_callback(keeper.stop)
                undo.push_async_callback(serving.stop)
                await serving.start(listening)
                undo.push_async_callback(_revoke, url, keys)
                await finish(_issue(url, keys))
                screen = JobScreen() if wanted.as_job else Screen()
                admin, worker = keys
                stage = Stage(
                    app, path, url, address_of(listening), admin, worker, Path(folder), screen, wanted.size
                )
                # In a thread: remote workers need the API of this event loop while they stop.
                undo.push_async_callback(in_thread, stage.stop_workers)
                with screen:
                    if settings.dispatch != "database":
                        stage.say(f"jobs are dispatched through Redis (mode {settings.dispatch})")
                    for _ in range(wanted.workers):
                        stage.worker("--no-keeper")
                    found = await demo(stage)
                await _end(found, stage, serving, wanted)
            finally:
                await finish(undo.aclose())  # a signal that arrives now must not leave keys or processes


@contextlib.asynccontextmanager
async def _alone(url: str, name: str) -> AsyncIterator[None]:
    """Keep two runs of a demo on one database apart: a demo replaces the data of its previous run."""
    from posthouse.errors import PosthouseError
    from posthouse.storage.actions import lock_demo
    from posthouse.storage.connections import connect_async

    async with await connect_async(url, "cli") as connection:
        if not await lock_demo(connection, name):
            raise PosthouseError(f"the demo {name!r} is already running on this database; wait for its end")
        yield


async def _end(found: dict[str, Any], stage: Stage, serving: ServerProcess, wanted: _Wanted) -> None:
    """Print the result and what to open, and stay up if asked to."""
    links = stage.links or {one.title: one.page for one in serving.applications if one.page is not None}
    if wanted.as_job:
        _show_to_job(found, stage.api_url, links)
        return
    _show(found, as_json=wanted.as_json)
    if wanted.serve:
        opened = {**links, "Console": "/console/"}
        logins = {text: serving.login_link("demo", stage.api_url, path) for text, path in opened.items()}
        await _stay_up(logins)
    else:
        _say_what_to_open(list(links.values()) or ["/apps/"], wanted.name)


def _show_to_job(found: dict[str, Any], address: str, links: dict[str, str]) -> None:
    """Print the result in one line. The address of this server ends with the demo, so paths remain."""
    import json

    result = {"figures": list(found.items()), "links": list(links.items())}  # jsonb keeps the order of lists
    text = json.dumps(result, default=str)
    typer.echo(text.replace(address, ""))


def _say_what_to_open(paths: list[str], name: str) -> None:
    from posthouse.cli.startup import own_command

    command = own_command()
    typer.echo(f"To open the result, run `{command} up` and log in with the link that it prints:", err=True)
    for path in paths:
        typer.echo(f"  http://127.0.0.1:8765{path}", err=True)
    typer.echo(f"Or keep the demo running: `{command} demo {name} --serve`.", err=True)


async def _stay_up(links: dict[str, str]) -> None:
    """Print links that log a browser in, and return when the process is told to stop."""
    import asyncio
    import sys

    sys.stdout.flush()  # stdout contains only the result
    for text, link in links.items():
        typer.echo(f"{text}: {link}", err=True)
    typer.echo("Each link logs you in once and expires in 10 minutes. Press Ctrl-C to stop.", err=True)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def _issue(url: str, keys: list[str]) -> None:
    """Add a key of an administrator and one of a worker."""
    from posthouse.cli.options import current_actor
    from posthouse.identity import Role, issue_key
    from posthouse.storage.connections import connect_async

    async with await connect_async(url, "cli") as connection:
        for role in (Role.SUPER_ADMIN, Role.WORKER):
            key = await issue_key(
                connection, "demo", role, may_announce=role is Role.WORKER, actor=current_actor()
            )
            keys.append(key)


async def _revoke(url: str, keys: list[str]) -> None:
    from posthouse.cli.options import current_actor
    from posthouse.identity.credentials import prefix_of
    from posthouse.storage.connections import connect_async
    from posthouse.storage.credentials import revoke_key

    async with await connect_async(url, "cli") as connection:
        for key in keys:
            await revoke_key(connection, prefix_of(key) or "", actor=current_actor())


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    for name, value in found.items():
        shown = ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else value
        print_line(f"{name}: {shown}")


def exit_on_interrupt() -> None:
    """Make Ctrl-C exit with code 130 and no traceback until an event loop handles signals."""
    signal.signal(signal.SIGINT, _exit)


def run_interruptible(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end. SIGTERM or Ctrl-C cancels it; after its clean-up the process exits with 143 or 130,
    unless ``main`` handles the cancellation and returns.
    """
    interrupted_by: list[int] = []
    run_event_loop(_run_until_signal(main, interrupted_by))
    if interrupted_by:
        sys.exit(128 + interrupted_by[0])


async def _run_until_signal(main: Coroutine[Any, Any, None], interrupted_by: list[int]) -> None:

    received: list[int] = []
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)

    def stop(number: int) -> None:
        if not received:  # the clean-up has a time limit; a second signal must not leave processes behind
            received.append(number)
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    await asyncio.wait([task])
    if not received:
        task.result()
    elif task.cancelled() or task.exception() is not None:  # retrieved, so that asyncio does not report it
        interrupted_by.extend(received)


def _exit(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
