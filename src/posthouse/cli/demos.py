"""posthouse demo: an application end to end, on data that it brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from posthouse.cli.options import WrongUsage, json_option
from posthouse.cli.output import say, show_json

if TYPE_CHECKING:
    from posthouse.app import App
    from posthouse.demo.stage import Demo
    from posthouse.identity import Role
    from posthouse.settings import Settings


class _Prepared(NamedTuple):
    """The application, on a database that has its tables."""

    app: App
    path: str
    settings: Settings


def demo(
    *,
    name: str | None = typer.Argument(None, help="Which; without a name they are listed."),
    size: int | None = typer.Option(None, min=1, metavar="N", help="How much to do, instead of a little."),
    workers: int = typer.Option(1, min=0, metavar="N", help="Workers to start.", show_default=True),
    as_json: bool = json_option(),
) -> None:
    """Run one application end to end, with its own worker, and print what it found.

    It runs on the database that the settings name, or on the embedded Postgres: what it did can be looked at
    afterwards.

    [b]Examples:[/b]

    posthouse demo

    posthouse demo embeddings --size 500 --json
    """
    from posthouse.worker.process import run_loop

    demos = _installed()
    if name is None:
        _list(demos, as_json=as_json)
        return
    if name not in demos:
        raise WrongUsage(f"there is no demo called {name!r}: {_choice(demos)}")
    found: dict[str, Any] = {}
    run_loop(_run(demos[name].load(), _prepare(name), found, size=size, workers=workers))
    _show(found, as_json=as_json)


def _installed() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group="posthouse.demos"))}


def _choice(demos: dict[str, Any]) -> str:
    return f"choose one of {', '.join(demos)}" if demos else "no application with a demo is installed"


def _list(demos: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(list(demos))
        return
    for name in demos:
        say(f"posthouse demo {name}")
    if not demos:
        say(_choice(demos))


def _prepare(name: str) -> _Prepared:
    import os

    from posthouse.cli.apps import installed_apps, load_app
    from posthouse.errors import ConfigurationError
    from posthouse.settings import ENV_PREFIX, load_settings
    from posthouse.storage.server import database_url

    path = installed_apps().get(name)
    if path is None:
        raise ConfigurationError(f"the package of the demo {name!r} has no app of this name")
    # For the app, which reads the settings itself, and for the workers.
    os.environ[f"{ENV_PREFIX}DATABASE_URL"] = database_url(load_settings())
    app = load_app(path)
    app.migrate()
    return _Prepared(app, path, load_settings())


async def _run(
    demo: Demo, prepared: _Prepared, found: dict[str, Any], *, size: int | None, workers: int
) -> None:
    import tempfile
    from pathlib import Path

    from posthouse.cli.listening import address_of, listen
    from posthouse.cli.server import Serving
    from posthouse.demo.screen import Screen
    from posthouse.demo.stage import Stage
    from posthouse.identity import Role
    from posthouse.system.housekeeping import Housekeeping

    app, path, settings = prepared
    url = settings.database_url
    keeper = Housekeeping(url, settings)
    serving = Serving(settings, [app])
    with (
        listen("127.0.0.1", 0) as listening,
        tempfile.TemporaryDirectory(prefix="posthouse-demo-") as folder,
        Screen() as screen,
    ):
        await keeper.start()
        await serving.start(listening)
        keys = [admin, worker] = [await _key(url, role) for role in (Role.SUPER_ADMIN, Role.WORKER)]
        stage = Stage(app, path, url, address_of(listening), admin, worker, Path(folder), screen, size)
        try:
            for _ in range(workers):
                stage.worker("--no-keeper")
            found.update(await demo(stage))
        finally:
            stage.stop_workers()
            await _revoke(url, keys)
            await serving.stop()
            await keeper.stop()
            await app.close()


async def _key(url: str, role: Role) -> str:
    from posthouse.cli.options import caller
    from posthouse.identity import issue_key
    from posthouse.storage.connect import connect_async

    async with await connect_async(url, "cli") as connection:
        return await issue_key(connection, "demo", role, actor=caller())


async def _revoke(url: str, keys: list[str]) -> None:
    from posthouse.cli.options import caller
    from posthouse.identity.keys import prefix_of
    from posthouse.storage.connect import connect_async
    from posthouse.storage.keys import revoke_key

    async with await connect_async(url, "cli") as connection:
        for key in keys:
            await revoke_key(connection, prefix_of(key) or "", actor=caller())


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    for name, value in found.items():
        shown = ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else value
        say(f"{name}: {shown}")
