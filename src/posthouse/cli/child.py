"""A child process of the supervisor: one worker, without a keeper."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from posthouse.app import App
    from posthouse.cli.log_format import WorkerField
    from posthouse.settings import Settings
    from posthouse.supervisor.channel import SupervisorChannel
    from posthouse.worker.worker import Worker


UNLIMITED_SECONDS = 1e7


def main() -> NoReturn:
    """Run what the supervisor says."""
    import signal

    from posthouse.cli.guarding import leave_embedded, run_guarded

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # until the worker runs: the supervisor handles signals
    try:
        sys.exit(run_guarded(_run))
    finally:
        leave_embedded()


def spec_of(
    *,
    apps: Sequence[str],
    queues: Sequence[str] = (),
    flags: Mapping[str, Any],
    metrics: bool = False,
    log_json: bool | None,
    log_level: str,
    log_stream: str = "stdout",
    hidden: Sequence[str] = (),
    shared: bool = True,
    quiet: bool = False,
) -> dict[str, Any]:
    """Return what a child runs.

    ``flags`` change settings. With ``shared`` the settings are those of the apps; otherwise those of the
    environment, as `posthouse up` takes them. Log lines of the ``hidden`` apps are not shown, and with
    ``quiet`` not that the worker has started.
    """
    return {
        "apps": list(apps),
        "queues": list(queues),
        "flags": {name: value for name, value in flags.items() if value is not None},
        "metrics": metrics,
        "log_json": log_json,
        "log_level": log_level,
        "log_stream": log_stream,
        "hidden": list(hidden),
        "shared": shared,
        "quiet": quiet,
    }


def _run() -> int:
    import dataclasses

    from posthouse.cli.apps import load_apps, merge_apps, settings_for, shared_settings
    from posthouse.cli.log_format import HideKinds, start_logging
    from posthouse.supervisor.channel import SupervisorChannel
    from posthouse.worker.shutdown import run_event_loop

    supervisor = SupervisorChannel()
    first = supervisor.receive()
    spec = first["spec"]
    apps = load_apps(spec["apps"])
    settings = (shared_settings if spec["shared"] else settings_for)(apps, **spec["flags"])
    snapshot = merge_apps(apps, _named(settings, first["number"]))
    stream = sys.stderr if spec["log_stream"] == "stderr" else sys.stdout
    field = start_logging(as_json=spec["log_json"], level=spec["log_level"], stream=stream)
    for path in spec["hidden"]:
        field.handler.addFilter(HideKinds(apps[path].definitions))
    if spec["metrics"]:
        _measure(supervisor)
    supervisor.send(loaded={**dataclasses.asdict(settings), "data_dir": str(settings.data_dir)})
    if "go" not in supervisor.receive():
        return 0
    run_event_loop(_work(snapshot, list(apps.values()), spec, field, supervisor))
    return 0


def _named(settings: Settings, number: int) -> Settings:
    """Return the settings with a name of this child's own, if a name was chosen."""
    import dataclasses

    if not settings.worker_name or settings.process_count() == 1:
        return settings
    return dataclasses.replace(settings, worker_name=f"{settings.worker_name}/{number}")


def _measure(supervisor: SupervisorChannel) -> None:
    from prometheus_client import generate_latest

    from posthouse.metrics.worker import start_collecting

    registry = start_collecting(worker=True, keeper=False)
    supervisor.metrics = lambda: generate_latest(registry).decode()


async def _work(
    snapshot: App,
    apps: Sequence[App],
    spec: Mapping[str, Any],
    field: WorkerField,
    supervisor: SupervisorChannel,
) -> None:
    import asyncio

    from posthouse.cli.run_worker import announce
    from posthouse.errors import PosthouseError
    from posthouse.storage.errors import translate_errors
    from posthouse.supervisor.channel import wait_for_recycling

    try:
        with translate_errors():  # Postgres may become unreachable while the worker starts
            worker = await snapshot.worker(queues=spec["queues"], status=supervisor.status)
            await worker.start()
        supervisor.serve(worker)
        field.worker_id = str(worker.id)
        if not spec["quiet"]:
            announce(worker)
        supervisor.send(ready=str(worker.id), name=worker.name)
        recycle = asyncio.ensure_future(wait_for_recycling(worker))
        events = (supervisor.drain, supervisor.release_jobs, worker.failed, worker.drained)
        await _first(recycle, *(event.wait() for event in events))
        await _stop(worker, supervisor, recycle)
        if supervisor.metrics is not None:
            supervisor.send(metrics=supervisor.metrics())
        if worker.failed.is_set():
            raise PosthouseError("the worker stopped because of an internal error; see the log for details")
    finally:
        for app in apps:
            await app.close()


async def _first(*waits: Any) -> None:
    import asyncio

    futures = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future in futures[1:]:
        future.cancel()


async def _stop(worker: Worker, supervisor: SupervisorChannel, recycle: Any) -> None:
    """Drain the worker. One that is replaced takes as long as its jobs do, until the supervisor stops too."""
    import asyncio

    replaced = recycle.done() and not supervisor.drain.is_set()
    if replaced:
        supervisor.send(recycling=recycle.result())
    elif worker.drained.is_set():
        supervisor.send(drained_by_operator=True)
    recycle.cancel()
    draining = asyncio.ensure_future(worker.stop(UNLIMITED_SECONDS if replaced else None))
    if replaced:
        await _either(draining, supervisor.drain.wait(), supervisor.release_jobs.wait())
        await _either(draining, asyncio.sleep(worker.settings.drain_seconds), supervisor.release_jobs.wait())
    else:
        await _either(draining, supervisor.release_jobs.wait())
    if not draining.done():
        worker.release_jobs()
    await draining


async def _either(draining: Any, *waits: Any) -> None:
    """Wait for the drain or one of the others."""
    import asyncio

    futures = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait([draining, *futures], return_when=asyncio.FIRST_COMPLETED)
    for future in futures:
        future.cancel()
