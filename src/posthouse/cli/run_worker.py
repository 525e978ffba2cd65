"""posthouse worker and posthouse keeper, which each run in their own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import checked_url
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import (
    app_option,
    commands_option,
    json_option,
    log_json_option,
    log_level_option,
    metrics_host_option,
    metrics_port_option,
)
from posthouse.cli.reload import reload_option

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from posthouse.maintenance import Maintenance
    from posthouse.settings import Settings
    from posthouse.supervisor.supervisor import JobSettler, Supervisor
    from posthouse.worker.worker import Worker

MAX_NAMES = 6


def worker(
    *,
    app: list[str] = app_option(),
    queue: list[str] = typer.Option([], metavar="QUEUE", help="Serve only this queue; repeat for several."),
    commands: bool | None = commands_option(),
    concurrency: int | None = typer.Option(
        None, metavar="N", min=1, help="The number of jobs to run at the same time."
    ),
    name: str | None = typer.Option(None, help="The name of the worker. Default: host name and process id."),
    capability: list[str] = typer.Option(
        [], metavar="WORD", help="A capability that jobs can require, such as gpu; repeat for several."
    ),
    remote: str | None = typer.Option(
        None, metavar="URL", help="Get jobs from this server over HTTP, without a database."
    ),
    key: str | None = typer.Option(
        None,
        metavar="KEY",
        help="The API key for --remote. Prefer POSTHOUSE_REMOTE_KEY: other users can see command lines.",
    ),
    no_keeper: bool = typer.Option(
        False, "--no-keeper", help="Run jobs only; a keeper in another process promotes and rescues jobs."
    ),
    processes: str | None = typer.Option(
        None, metavar="N", help="The number of child processes that run jobs; auto: one per core. Default: 1."
    ),
    max_jobs: int | None = typer.Option(
        None, metavar="N", min=1, help="Replace a child process after it has run this many jobs."
    ),
    max_rss: int | None = typer.Option(
        None, metavar="MB", min=1, help="Replace a child process that uses more memory than this."
    ),
    reload: bool = reload_option(),
    metrics_port: int | None = metrics_port_option(),
    metrics_host: str = metrics_host_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
) -> None:
    """Run jobs until told to stop.

    Jobs run in child processes. A child that crashes or is stuck is replaced, and only the job that blocked
    it counts a crash. On SIGTERM or Ctrl-C the workers claim no more jobs and finish the running ones. A
    second signal releases the running jobs, so that other workers run them.

    [b]Examples:[/b]

    posthouse worker --app shop.jobs:app

    posthouse worker --app shop.jobs:app --queue mail --concurrency 20

    posthouse worker --app shop.jobs:app --processes auto --max-jobs 10000 --max-rss 500

    posthouse worker --commands

    posthouse worker --app shop.jobs:app --name studio-gpu --capability gpu --capability codec:h264

    posthouse worker --app shop.jobs:app --metrics-port 9109 --metrics-host 0.0.0.0

    posthouse worker --remote https://jobs.example.com --app shop.jobs:app
    """
    import sys

    from posthouse.cli.apps import resolve_app_paths
    from posthouse.cli.child import spec_of
    from posthouse.cli.log_format import start_logging
    from posthouse.cli.reload import inherited
    from posthouse.settings import load_settings
    from posthouse.worker.shutdown import run_event_loop

    _go_remote(remote, key)
    settings = load_settings(commands=commands)
    paths = resolve_app_paths(app, settings)
    inherited()
    if not paths and not settings.commands:
        raise UsageError(
            "no application given: pass --app module:name or set POSTHOUSE_APP, "
            "or pass --commands to run only commands"
        )
    if reload:
        sys.exit(_reload(paths))
    start_logging(as_json=log_json, level=log_level)
    spec = spec_of(
        apps=paths,
        queues=queue,
        flags={
            "commands": commands,
            "concurrency": concurrency,
            "worker_name": name,
            "capabilities": ",".join(capability) or None,
            "remote_url": remote,
            "remote_key": key,
            "processes": processes,
            "max_jobs": max_jobs,
            "max_rss_mb": max_rss,
        },
        metrics=metrics_port is not None,
        log_json=log_json,
        log_level=log_level,
    )
    codes: list[int] = []
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    run_event_loop(_supervise(spec, codes, metrics, with_keeper=not no_keeper))
    if any(codes):
        sys.exit(codes[0])


def _reload(paths: Sequence[str]) -> int:
    from posthouse.cli.reload import run_reloading
    from posthouse.settings import load_settings

    settings = load_settings()
    if not settings.remote_url:
        checked_url(settings)  # also keeps an embedded Postgres running during restarts
    return run_reloading(paths)


def _go_remote(url: str | None, key: str | None) -> None:
    """Set the environment variables, which apps and the worker's processes read."""
    import os

    for name, value in (("POSTHOUSE_REMOTE_URL", url), ("POSTHOUSE_REMOTE_KEY", key)):
        if value is not None:
            os.environ[name] = value


def _serve_metrics(host: str, port: int, supervisor: Supervisor | None = None) -> None:
    """Serve the metrics of this process and of the supervisor's children, and the liveness probe."""
    import asyncio
    import logging

    from posthouse.errors import ConfigurationError

    try:
        from posthouse.metrics.registry import MergedMetrics
        from posthouse.metrics.worker import serve, start_collecting
    except ImportError as error:
        raise ConfigurationError(
            f"--metrics-port needs the package {error.name}; install it with: pip install 'posthouse[server]'"
        ) from None
    loop = asyncio.get_running_loop()
    registry = start_collecting(worker=False)
    if supervisor is None:
        port = serve(host, port, registry, _LoopWatch(loop).errors)
    else:
        children = supervisor
        merged = MergedMetrics(
            registry, lambda: asyncio.run_coroutine_threadsafe(children.measure(), loop).result()
        )
        children.on_metrics_end = merged.add_ended
        port = serve(host, port, merged.registry(), children.errors)
    logging.getLogger("posthouse.up").info("metrics served: url=http://%s:%d/metrics", host, port)


class _LoopWatch:
    """Notes when the event loop of a keeper last ran."""

    TICK_SECONDS = 1.0
    LIMIT_SECONDS = 30.0

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tick()

    def _tick(self) -> None:
        import time

        self._ran_at = time.monotonic()
        self._loop.call_later(self.TICK_SECONDS, self._tick)

    def errors(self) -> list[str]:
        import time

        still = time.monotonic() - self._ran_at
        return [f"the event loop has not run for {still:.1f} s"] if still > self.LIMIT_SECONDS else []


async def _supervise(
    spec: Mapping[str, Any], codes: list[int], metrics: tuple[str, int] | None, *, with_keeper: bool
) -> None:
    """Run the supervisor, and the keeper beside it, until told to stop."""
    import asyncio

    from posthouse.supervisor.supervisor import Supervisor
    from posthouse.worker.shutdown import ShutdownSignals

    keepers: list[Maintenance] = []

    async def on_loaded(settings: Settings) -> JobSettler:
        return await _prepare(settings, keepers, with_keeper=with_keeper)

    supervisor = Supervisor(spec, on_loaded)
    stop = ShutdownSignals(asyncio.get_running_loop(), supervisor.drain_seconds)
    if metrics is not None:
        _serve_metrics(*metrics, supervisor)
    supervisor.start()
    await stop.wait(supervisor.failed, supervisor.drained)
    await stop.wait_for_drain(asyncio.ensure_future(supervisor.stop()), supervisor.release_jobs)
    for keeper in keepers:
        await keeper.stop()
    codes.append(supervisor.exit_code)
    if supervisor.error is not None:
        raise supervisor.error


async def _prepare(settings: Settings, keepers: list[Maintenance], *, with_keeper: bool) -> JobSettler:
    """Check the database of the application and start the keeper; return how to settle jobs."""
    import asyncio

    from posthouse.maintenance import Maintenance
    from posthouse.storage.database import retry_startup
    from posthouse.supervisor.supervisor import JobSettler

    if settings.remote_url:
        return JobSettler.remote(settings)
    url = await retry_startup("connect to Postgres", lambda: asyncio.to_thread(checked_url, settings))
    if with_keeper:
        keepers.append(Maintenance(url, settings))
        await keepers[0].start()
    return JobSettler.direct(url, settings)


def announce(worker: Worker) -> None:
    """Log what this worker serves."""
    import logging

    kinds = sorted(worker.definitions)
    logging.getLogger("posthouse.worker").info(
        "worker started: name=%s queues=%s kinds=%s concurrency=%d",
        worker.name,
        _shortened(worker.queues),
        _shortened(kinds),
        worker.settings.concurrency,
        extra={"queues": worker.queues, "kinds": kinds, "concurrency": worker.settings.concurrency},
    )


def _shortened(names: Sequence[str]) -> str:
    """Return the first names and the number of others; a log line in JSON has all of them."""
    more = len(names) - MAX_NAMES
    return ",".join([*names[:MAX_NAMES], *([f"+{more}"] if more > 0 else [])])


def keeper(
    *,
    once: bool = typer.Option(False, "--once", help="Run each step once, print the counts, and exit."),
    metrics_port: int | None = metrics_port_option(),
    metrics_host: str = metrics_host_option(),
    log_json: bool | None = log_json_option(),
    log_level: str = log_level_option(),
    as_json: bool = json_option(),
) -> None:
    """Run the keeper: promote due jobs, rescue lost jobs, start triggers, send alerts, delete old rows.

    Every worker runs a keeper too, unless started with --no-keeper. Any number of keepers may run.
    """
    from posthouse.cli.log_format import start_logging
    from posthouse.settings import load_settings
    from posthouse.worker.shutdown import run_event_loop

    settings = load_settings()
    start_logging(as_json=log_json, level=log_level)
    url = checked_url(settings, wait_for_startup=not once)
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    run_event_loop(_keep_once(url, settings, as_json=as_json) if once else _keep(url, settings, metrics))


async def _keep_once(url: str, settings: Settings, *, as_json: bool) -> None:
    from posthouse.cli.output import print_line, show_json
    from posthouse.maintenance import Maintenance
    from posthouse.storage.errors import translate_errors

    maintenance = Maintenance(url, settings)
    try:
        with translate_errors():
            done = await maintenance.run_once()
    finally:
        await maintenance.stop()
    if as_json:
        show_json(done)
        return
    for name, counts in done.items():
        print_line(f"{name}: {', '.join(f'{what} {number}' for what, number in counts.items())}")


async def _keep(url: str, settings: Settings, metrics: tuple[str, int] | None) -> None:
    import asyncio
    import logging

    from posthouse.maintenance import Maintenance
    from posthouse.worker.shutdown import ShutdownSignals

    stop = ShutdownSignals(asyncio.get_running_loop())
    if metrics is not None:
        _serve_metrics(*metrics)
    maintenance = Maintenance(url, settings)
    await maintenance.start()
    steps = ",".join(step.name for step in maintenance.steps)
    logging.getLogger("posthouse.keeper").info("keeper started: steps=%s", steps)
    await stop.wait()  # a keeper recovers from errors by itself
    await maintenance.stop()
