"""posthouse worker and posthouse keeper: the parts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from posthouse.cli.options import (
    WrongUsage,
    app_option,
    commands_option,
    json_option,
    log_json_option,
    log_level_option,
    metrics_host_option,
    metrics_port_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posthouse.app import App
    from posthouse.cli.logs import WorkerField
    from posthouse.settings import Settings
    from posthouse.worker.worker import Worker


def worker(
    *,
    app: list[str] = app_option(),
    queue: list[str] = typer.Option(
        [], metavar="QUEUE", help="Serve only this queue; may be given several times."
    ),
    commands: bool | None = commands_option(),
    concurrency: int | None = typer.Option(None, metavar="N", min=1, help="Jobs to run at the same time."),
    name: str | None = typer.Option(None, help="What to call it. Default: its host and process."),
    capability: list[str] = typer.Option(
        [], metavar="WORD", help="What it can do that others cannot, like gpu; may be given several times."
    ),
    remote: str | None = typer.Option(
        None, metavar="URL", help="Get jobs from this server over HTTP; needs no database."
    ),
    key: str | None = typer.Option(
        None,
        metavar="KEY",
        help="The API key for --remote; rather set POSTHOUSE_REMOTE_KEY, which no one sees.",
    ),
    no_keeper: bool = typer.Option(
        False, "--no-keeper", help="Only run jobs: leave due and lost jobs to a keeper elsewhere."
    ),
    metrics_port: int | None = metrics_port_option(),
    metrics_host: str = metrics_host_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C: no new jobs, running ones are finished; a second one lets go of them.

    [b]Examples:[/b]

    posthouse worker --app shop.jobs:app

    posthouse worker --app shop.jobs:app --queue mail --concurrency 20

    posthouse worker --commands

    posthouse worker --app shop.jobs:app --name studio-gpu --capability gpu --capability codec:h264

    posthouse worker --app shop.jobs:app --metrics-port 9109 --metrics-host 0.0.0.0

    posthouse worker --remote https://jobs.example.com --app shop.jobs:app
    """
    from posthouse.cli.apps import chosen_paths, combined, load_apps, shared_settings
    from posthouse.cli.logs import start_logging
    from posthouse.cli.session import reachable
    from posthouse.settings import load_settings
    from posthouse.worker.process import run_loop

    _go_remote(remote, key)
    paths = chosen_paths(app, load_settings())
    apps = load_apps(paths)
    settings = shared_settings(
        apps,
        commands=commands,
        concurrency=concurrency,
        worker_name=name,
        capabilities=",".join(capability) or None,
        remote_url=remote,
        remote_key=key,
    )
    if not paths and not settings.commands:
        raise WrongUsage("which app? say --app module:name, or set POSTHOUSE_APP; or run --commands")
    whole = combined(apps, settings)
    field = start_logging(as_json=log_json, level=log_level)
    if not settings.remote_url:
        reachable(settings)
    _serve_metrics(metrics_host, metrics_port, worker=True)
    run_loop(_work(whole, list(apps.values()), queue, field, with_keeper=not no_keeper))


def _go_remote(url: str | None, key: str | None) -> None:
    """In the environment, so that all apps know it, and those in processes of the worker too."""
    import os

    for name, value in (("POSTHOUSE_REMOTE_URL", url), ("POSTHOUSE_REMOTE_KEY", key)):
        if value is not None:
            os.environ[name] = value


def _serve_metrics(host: str, port: int | None, *, worker: bool) -> None:
    if port is None:
        return
    import logging

    from posthouse.errors import ConfigurationError

    try:
        from posthouse.metrics.port import serve
    except ImportError as error:
        raise ConfigurationError(f"metrics need {error.name}: pip install 'posthouse[server]'") from None
    port = serve(host, port, worker=worker)
    logging.getLogger("posthouse.up").info("metrics: http://%s:%d/metrics", host, port)


async def _work(
    whole: App, apps: Sequence[App], queues: Sequence[str], field: WorkerField, *, with_keeper: bool
) -> None:
    try:
        await whole.work(queues=queues, keeper=with_keeper, ready=lambda started: announce(started, field))
    finally:
        for app in apps:
            await app.close()


def announce(worker: Worker, field: WorkerField) -> None:
    """The line that says what this worker is."""
    import logging

    field.worker_id = str(worker.id)
    kinds = sorted(worker.definitions)
    logging.getLogger("posthouse.worker").info(
        "worker %s: queues %s; kinds %s; concurrency %d",
        worker.name,
        ", ".join(worker.queues),
        ", ".join(kinds),
        worker.settings.concurrency,
        extra={"queues": worker.queues, "kinds": kinds, "concurrency": worker.settings.concurrency},
    )


def keeper(
    *,
    once: bool = typer.Option(False, "--once", help="Take each step once, and say what was done."),
    metrics_port: int | None = metrics_port_option(),
    metrics_host: str = metrics_host_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
    as_json: bool = json_option(),
) -> None:
    """Promote due jobs, rescue lost ones, make jobs of events, send alerts, keep partitions, until stopped.

    A worker does this too unless told not to. Any number of keepers may run.
    """
    from posthouse.cli.logs import start_logging
    from posthouse.cli.session import reachable
    from posthouse.settings import load_settings
    from posthouse.worker.process import run_loop

    settings = load_settings()
    start_logging(as_json=log_json, level=log_level)
    url = reachable(settings)
    _serve_metrics(metrics_host, metrics_port, worker=False)
    run_loop(_keep_once(url, settings, as_json=as_json) if once else _keep(url, settings))


async def _keep_once(url: str, settings: Settings, *, as_json: bool) -> None:
    from posthouse.cli.output import say, show_json
    from posthouse.system.housekeeping import Housekeeping

    housekeeping = Housekeeping(url, settings)
    try:
        done = await housekeeping.run_once()
    finally:
        await housekeeping.stop()
    if as_json:
        show_json(done)
        return
    for name, counts in done.items():
        say(f"{name}: {', '.join(f'{what} {number}' for what, number in counts.items())}")


async def _keep(url: str, settings: Settings) -> None:
    import asyncio
    import logging

    from posthouse.system.housekeeping import Housekeeping
    from posthouse.worker.process import Stop

    stop = Stop(asyncio.get_running_loop())
    housekeeping = Housekeeping(url, settings)
    await housekeeping.start()
    steps = ", ".join(step.name for step in housekeeping.steps)
    logging.getLogger("posthouse.keeper").info("keeper: %s", steps)
    await stop.asked_or()  # a keeper mends itself
    await housekeeping.stop()
